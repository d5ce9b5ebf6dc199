// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/proc_stats.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

constexpr int64_t kSectorBytes = 512;  // of /proc/diskstats, whatever the disk's own

std::vector<absl::string_view> Words(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

bool NumbersFrom(const std::vector<absl::string_view>& words, size_t first, std::vector<int64_t>* numbers) {
  for (size_t i = first; i < words.size(); ++i) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(words[i], &number)) return false;
    numbers->push_back(number);
  }
  return true;
}

// sda1, nvme0n1p2 and mmcblk0p1 are parts of a disk that is listed, too.
bool IsWholeDisk(absl::string_view name) {
  if (absl::StartsWith(name, "loop") || absl::StartsWith(name, "ram")) return false;
  if (absl::StartsWith(name, "nvme") || absl::StartsWith(name, "mmcblk")) return !absl::StrContains(name, 'p');
  if (absl::StartsWith(name, "sd") || absl::StartsWith(name, "hd") || absl::StartsWith(name, "vd") ||
      absl::StartsWith(name, "xvd")) {
    return !absl::ascii_isdigit(static_cast<unsigned char>(name.back()));
  }
  return true;
}

}  // namespace

absl::StatusOr<CpuTicks> ParseCpuTicks(absl::string_view proc_stat) {
  const std::vector<absl::string_view> words = Words(proc_stat.substr(0, proc_stat.find('\n')));
  std::vector<int64_t> ticks;
  if (words.size() < 6 || words[0] != "cpu" || !NumbersFrom(words, 1, &ticks))
    return absl::InternalError("/proc/stat has no line of all CPUs");
  // user nice system idle iowait irq softirq steal guest guest_nice; the guests' are in user and nice already.
  CpuTicks result;
  for (size_t i = 0; i < std::min<size_t>(ticks.size(), 8); ++i) result.total += ticks[i];
  result.busy = result.total - ticks[3] - ticks[4];
  return result;
}

double CpuPercent(const CpuTicks& before, const CpuTicks& now) {
  const int64_t total = now.total - before.total;
  if (total <= 0) return 0;
  return std::clamp(100.0 * static_cast<double>(now.busy - before.busy) / static_cast<double>(total), 0.0, 100.0);
}

absl::StatusOr<MachineMemory> ParseMachineMemory(absl::string_view proc_meminfo) {
  MachineMemory memory;
  const std::pair<const char*, int64_t*> kFields[] = {{"MemTotal:", &memory.total},
                                                      {"MemAvailable:", &memory.available},
                                                      {"SwapTotal:", &memory.swap_total},
                                                      {"SwapFree:", &memory.swap_free}};
  size_t found = 0;
  for (absl::string_view line : absl::StrSplit(proc_meminfo, '\n')) {
    for (const auto& [name, value] : kFields) {
      absl::string_view rest = line;
      if (!absl::ConsumePrefix(&rest, name) || !absl::ConsumeSuffix(&rest, "kB")) continue;
      if (!absl::SimpleAtoi(rest, value)) return absl::InternalError("/proc/meminfo has a line without a number");
      *value *= 1024;
      ++found;
    }
  }
  if (found < std::size(kFields)) return absl::InternalError("/proc/meminfo lacks memory or swap");
  return memory;
}

absl::StatusOr<int64_t> ParseResidentBytes(absl::string_view statm, int64_t page_bytes) {
  const std::vector<absl::string_view> words = Words(statm);
  int64_t pages = 0;
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &pages))
    return absl::InternalError("/proc/self/statm has no resident pages");
  return pages * page_bytes;
}

std::map<std::string, DiskTotals> ParseDisks(absl::string_view proc_diskstats) {
  std::map<std::string, DiskTotals> disks;
  for (absl::string_view line : absl::StrSplit(proc_diskstats, '\n')) {
    const std::vector<absl::string_view> words = Words(line);
    std::vector<int64_t> numbers;
    // major minor name | reads merged sectors ms | writes merged sectors ms | in_flight busy_ms …
    if (words.size() < 13 || !IsWholeDisk(words[2]) || !NumbersFrom(words, 3, &numbers)) continue;
    disks[std::string(words[2])] = {numbers[2] * kSectorBytes, numbers[6] * kSectorBytes, numbers[9]};
  }
  return disks;
}

std::map<std::string, NetworkTotals> ParseNetwork(absl::string_view proc_net_dev) {
  std::map<std::string, NetworkTotals> interfaces;
  for (absl::string_view line : absl::StrSplit(proc_net_dev, '\n')) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    const std::vector<absl::string_view> words = Words(line.substr(colon + 1));
    std::vector<int64_t> numbers;
    if (words.size() < 9 || !NumbersFrom(words, 0, &numbers)) continue;
    interfaces[std::string(absl::StripAsciiWhitespace(line.substr(0, colon)))] = {numbers[0], numbers[8]};
  }
  return interfaces;
}

}  // namespace composer
