// SPDX-License-Identifier: Apache-2.0
#include "base/machine_stats.h"

#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int64_t kMaxProcBytes = 1 << 20;

double Percent(int64_t part, int64_t whole) {
  return whole <= 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// Returns the whole numbers in a line; skips its other words.
std::vector<int64_t> Numbers(absl::string_view line) {
  std::vector<int64_t> numbers;
  for (const absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty())) {
    if (int64_t number = 0; absl::SimpleAtoi(word, &number)) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

double CpuPercent(const CpuTimes& before, const CpuTimes& now) {
  const int64_t total = now.total - before.total, idle = now.idle - before.idle;
  return std::clamp(Percent(total - idle, total), 0.0, 100.0);
}

double MachineMemory::percent() const { return Percent(total - available, total); }
double DiskSpace::percent() const { return Percent(used, used + free); }

// Format: cpu user nice system idle iowait irq softirq steal guest guest_nice
absl::StatusOr<CpuTimes> ParseCpuTimes(absl::string_view proc_stat) {
  absl::string_view line = proc_stat.substr(0, proc_stat.find('\n'));
  const std::vector<int64_t> ticks = absl::ConsumePrefix(&line, "cpu ") ? Numbers(line) : std::vector<int64_t>();
  if (ticks.size() < 5) return absl::InternalError("/proc/stat has no line `cpu` with its times");
  CpuTimes times;
  for (size_t i = 0; i < std::min<size_t>(ticks.size(), 8); ++i) times.total += ticks[i];
  times.idle = ticks[3] + ticks[4];
  return times;
}

absl::StatusOr<MachineMemory> ParseMachineMemory(absl::string_view proc_meminfo) {
  std::map<absl::string_view, int64_t> kibibytes;
  for (const absl::string_view line : absl::StrSplit(proc_meminfo, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> sides = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (sides.size() != 2) continue;
    if (const std::vector<int64_t> numbers = Numbers(sides[1]); !numbers.empty()) kibibytes[sides[0]] = numbers[0];
  }
  for (const char* name : {"MemTotal", "MemAvailable", "MemFree"}) {
    if (kibibytes.count(name) == 0) return absl::InternalError(absl::StrCat("/proc/meminfo has no ", name));
  }
  const auto bytes = [&](const char* name) { return kibibytes[name] * 1024; };
  MachineMemory memory;
  memory.total = bytes("MemTotal");
  memory.available = std::min(bytes("MemAvailable"), memory.total);
  memory.used = memory.total - memory.available;
  memory.free = bytes("MemFree");
  memory.active = bytes("Active");
  memory.inactive = bytes("Inactive");
  memory.buffers = bytes("Buffers");
  memory.cached = bytes("Cached") + bytes("SReclaimable");
  memory.shared = bytes("Shmem");
  memory.slab = bytes("Slab");
  memory.swap_total = bytes("SwapTotal");
  memory.swap_free = bytes("SwapFree");
  return memory;
}

// Format: name: bytes packets errs drop fifo frame compressed multicast | bytes packets errs drop …
absl::StatusOr<NetworkCounters> ParseNetworkCounters(absl::string_view proc_net_dev) {
  NetworkCounters sum;
  for (const absl::string_view line : absl::StrSplit(proc_net_dev, '\n', absl::SkipEmpty())) {
    const size_t colon = line.rfind(':');
    if (colon == absl::string_view::npos) continue;  // the two title lines
    const std::vector<int64_t> n = Numbers(line.substr(colon + 1));
    if (n.size() < 12) return absl::InternalError(absl::StrCat("/proc/net/dev has a short line: ", line));
    sum.bytes_recv += n[0], sum.packets_recv += n[1], sum.errin += n[2], sum.dropin += n[3];
    sum.bytes_sent += n[8], sum.packets_sent += n[9], sum.errout += n[10], sum.dropout += n[11];
  }
  return sum;
}

std::vector<absl::string_view> FieldsOfProcStat(absl::string_view proc_stat) {
  const size_t name_end = proc_stat.rfind(')');  // the name may contain anything
  if (name_end == absl::string_view::npos) return {};
  return absl::StrSplit(proc_stat.substr(name_end + 1), ' ', absl::SkipEmpty());
}

absl::StatusOr<CpuTimes> ReadCpuTimes(const std::string& proc) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(JoinPath(proc, "stat"), kMaxProcBytes));
  return ParseCpuTimes(text);
}

absl::StatusOr<MachineMemory> ReadMachineMemory(const std::string& proc) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(JoinPath(proc, "meminfo"), kMaxProcBytes));
  return ParseMachineMemory(text);
}

absl::StatusOr<NetworkCounters> ReadNetworkCounters(const std::string& proc) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(JoinPath(proc, "net/dev"), kMaxProcBytes));
  return ParseNetworkCounters(text);
}

absl::StatusOr<DiskSpace> ReadDiskSpace(const std::string& path) {
  struct statvfs fs{};
  if (statvfs(path.c_str(), &fs) != 0) return ErrnoStatus(errno, "cannot measure the disk of", path);
  const auto block = static_cast<int64_t>(fs.f_frsize);
  return DiskSpace{block * static_cast<int64_t>(fs.f_blocks), block * static_cast<int64_t>(fs.f_blocks - fs.f_bfree),
                   block * static_cast<int64_t>(fs.f_bavail)};
}

std::vector<ProcessMemory> LargestProcesses(size_t limit, const std::string& proc) {
  std::vector<ProcessMemory> processes;
  const absl::StatusOr<std::vector<std::string>> names = ListDir(proc);
  if (!names.ok()) return processes;
  const int64_t page = sysconf(_SC_PAGESIZE);
  for (const std::string& name : *names) {
    int64_t pid = 0;
    if (!absl::SimpleAtoi(name, &pid)) continue;
    const absl::StatusOr<std::string> statm = ReadFile(JoinPath(JoinPath(proc, name), "statm"), kMaxProcBytes);
    if (!statm.ok()) continue;
    const std::vector<int64_t> pages = Numbers(absl::StripAsciiWhitespace(*statm));
    if (pages.size() > 1 && pages[1] > 0) processes.push_back({pid, "", pages[1] * page});
  }
  std::sort(processes.begin(), processes.end(),
            [](const ProcessMemory& a, const ProcessMemory& b) { return a.resident_bytes > b.resident_bytes; });
  if (processes.size() > limit) processes.resize(limit);
  for (ProcessMemory& process : processes) process.name = ProcessName(process.pid, proc);
  return processes;
}

std::string ValueOfLine(absl::string_view text, absl::string_view name, char separator) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(separator, 1));
    if (absl::StripAsciiWhitespace(parts.first) != name) continue;
    return std::string(absl::StripSuffix(absl::StripPrefix(absl::StripAsciiWhitespace(parts.second), "\""), "\""));
  }
  return "";
}

MachineNames ReadMachineNames(const std::string& proc, const std::string& etc) {
  constexpr size_t kMostBytes = 200;
  constexpr int64_t kMostCpuInfo = 16 << 20;
  const auto in_file = [&](const std::string& path, absl::string_view name, char separator) {
    return ValueOfLine(ReadFile(path, kMostCpuInfo).value_or(""), name, separator).substr(0, kMostBytes);
  };
  MachineNames names;
  names.os = in_file(JoinPath(etc, "os-release"), "PRETTY_NAME", '=');
  names.processor = in_file(JoinPath(proc, "cpuinfo"), "model name", ':');
  utsname kernel{};
  if (uname(&kernel) == 0) names.kernel = absl::StrCat(kernel.sysname, " ", kernel.release).substr(0, kMostBytes);
  return names;
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = "";
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

std::string ProcessName(int64_t pid, const std::string& proc) {
  const auto text = ReadFile(JoinPath(JoinPath(proc, absl::StrCat(pid)), "comm"), kMaxProcBytes);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

}  // namespace composer
