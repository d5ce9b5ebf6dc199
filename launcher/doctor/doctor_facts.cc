// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/doctor_facts.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "launcher/workers/node_resources.h"

namespace composer {
namespace {

constexpr size_t kProbeBytes = 32 << 20;
constexpr char kOutside[] = "192.0.2.1";  // RFC 5737; nothing is sent

// Returns the number in a small kernel file; nullopt if there is no such file or it holds a word ("max").
std::optional<int64_t> NumberIn(const std::string& path) {
  const auto text = ReadFile(path);
  int64_t number = 0;
  if (!text.ok() || !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &number)) return std::nullopt;
  return number;
}

// Returns the bytes of a line such as "MemTotal:  16318072 kB".
int64_t MemoryLine(const std::string& meminfo, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    if (!absl::StartsWith(line, name)) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kilobytes = 0;
    if (words.size() >= 2 && absl::SimpleAtoi(words[1], &kilobytes)) return kilobytes * 1024;
  }
  return 0;
}

void GatherLimits(DoctorFacts& facts) {
  facts.cpus = static_cast<int>(AllowedCpus().size());
  const std::string meminfo = ReadFile("/proc/meminfo").value_or("");
  facts.memory_bytes = MemoryLine(meminfo, "MemTotal:");
  facts.memory_available = MemoryLine(meminfo, "MemAvailable:");
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const auto limit = NumberIn(path);
    if (limit.has_value() && *limit < facts.memory_bytes) facts.memory_limit = *limit;
  }
  const std::vector<std::string> quota = absl::StrSplit(ReadFile("/sys/fs/cgroup/cpu.max").value_or(""), ' ');
  double micros = 0, period = 0;
  if (quota.size() == 2 && absl::SimpleAtod(quota[0], &micros) &&
      absl::SimpleAtod(absl::StripAsciiWhitespace(quota[1]), &period) && period > 0) {
    facts.cpu_quota = micros / period;
  }
  struct statvfs shm = {};
  if (statvfs("/dev/shm", &shm) == 0) facts.shm_bytes = static_cast<int64_t>(shm.f_blocks * shm.f_frsize);
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.open_files_soft = static_cast<int64_t>(limit.rlim_cur);
    facts.open_files_hard = static_cast<int64_t>(limit.rlim_max);
  }
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts.locked_bytes = static_cast<int64_t>(limit.rlim_cur);
  }
  const long fd = syscall(SYS_pidfd_open, getpid(), 0);
  facts.has_pidfd = fd >= 0;
  if (fd >= 0) close(static_cast<int>(fd));
}

void GatherNetwork(const Environment& environment, const Endpoint* endpoint, DoctorFacts& facts) {
  facts.interfaces = ListInterfaces();
  facts.host_addresses = ResolveHost(facts.host).value_or(std::vector<std::string>());
  facts.outside_source = SourceAddress(kOutside);
  for (const char* name : kInterfaceVariables) {
    const std::string value = environment.GetOr(name, "");
    if (!value.empty()) facts.interface_variables[name] = value;
  }
  if (endpoint != nullptr) facts.endpoint = ProbeReachability(*endpoint, absl::Seconds(2));
  constexpr char kInfiniband[] = "/sys/class/infiniband";
  for (const std::string& device : ListDir(kInfiniband).value_or(std::vector<std::string>())) {
    const std::string ports = absl::StrCat(kInfiniband, "/", device, "/ports");
    for (const std::string& port : ListDir(ports).value_or(std::vector<std::string>())) {
      const std::string state = ReadFile(absl::StrCat(ports, "/", port, "/state")).value_or("?");  // "4: ACTIVE"
      facts.infiniband.push_back(absl::StrCat(
          device, " port ", port, ": ", absl::StripAsciiWhitespace(state.substr(std::min(state.size(), size_t{2})))));
    }
  }
}

std::string NcclVersion() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "";
  const absl::Cleanup unload = [library] { dlclose(library); };
  auto get = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != 0) return "unknown";
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);  // the encoding since 2.9
}

std::string FilesystemName(const std::string& path) {
  struct statfs facts = {};
  if (statfs(path.c_str(), &facts) != 0) return "";
  const std::map<int64_t, std::string> names = {{0xEF53, "ext4"},        {0x58465342, "xfs"},  {0x9123683E, "btrfs"},
                                                {0x01021994, "tmpfs"},   {0x6969, "nfs"},      {0x0BD00BD0, "lustre"},
                                                {0x794C7630, "overlay"}, {0x47504653, "gpfs"}, {0x00C36400, "ceph"},
                                                {0x2FC12FC1, "zfs"}};
  const auto it = names.find(static_cast<int64_t>(static_cast<uint32_t>(facts.f_type)));
  return it == names.end() ? "" : it->second;
}

// Writes and syncs a file of its own, and removes it.
void MeasureWriting(FolderFacts& folder) {
  std::string path = JoinPath(folder.path, ".composer-doctor-XXXXXX");
  const int fd = mkstemp(path.data());
  if (fd < 0) {
    folder.error = std::string(ErrnoStatus(errno, "write to", folder.path).message());
    return;
  }
  const absl::Cleanup remove = [&] {
    close(fd);
    unlink(path.c_str());
  };
  const std::string block(1 << 20, 'x');
  const absl::Time begin = absl::Now();
  for (size_t written = 0; written < kProbeBytes; written += block.size()) {
    if (write(fd, block.data(), block.size()) != static_cast<ssize_t>(block.size())) {
      folder.error = std::string(ErrnoStatus(errno, "write to", folder.path).message());
      return;
    }
  }
  if (fsync(fd) != 0) folder.error = std::string(ErrnoStatus(errno, "sync", folder.path).message());
  folder.write_mb_per_s = kProbeBytes / 1e6 / std::max(1e-6, absl::ToDoubleSeconds(absl::Now() - begin));
}

// Describes the folder, or the nearest existing one above it, because the launcher creates the rest.
FolderFacts GatherFolder(const std::string& path) {
  FolderFacts folder = {.path = AbsolutePath(path)};
  while (!IsDirectory(folder.path) && folder.path.size() > 1) folder.path = DirName(folder.path);
  struct statvfs space = {};
  if (statvfs(folder.path.c_str(), &space) == 0) {
    folder.free_bytes = static_cast<int64_t>(space.f_bavail * space.f_frsize);
    if (space.f_files > 0) folder.free_files = static_cast<int64_t>(space.f_favail);
  }
  folder.filesystem = FilesystemName(folder.path);
  MeasureWriting(folder);
  return folder;
}

}  // namespace

DoctorFacts GatherDoctorFacts(const Environment& environment, const std::string& run_folder, const Endpoint* endpoint) {
  DoctorFacts facts;
  utsname system = {};
  if (uname(&system) == 0) {
    facts.host = system.nodename;
    facts.kernel = system.release;
  }
  std::error_code none;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", none);
  const std::string worker = JoinPath(DirName(self), "composer_worker");
  if (access(worker.c_str(), X_OK) == 0) facts.worker_path = worker;
  GatherLimits(facts);
  GatherNetwork(environment, endpoint, facts);
  facts.gpu_files = VisibleGpus({});
  facts.visible_devices = environment.Get("CUDA_VISIBLE_DEVICES");
  facts.nvml = ReadDriverFacts("libnvidia-ml.so.1", "/dev/kmsg");
  facts.nccl = NcclVersion();
  timex clock = {};
  facts.clock_synchronised = adjtimex(&clock) != TIME_ERROR;
  facts.clock_error = absl::Microseconds(clock.maxerror);
  facts.run_folder = GatherFolder(run_folder);
  facts.temp_folder = GatherFolder(environment.GetOr("TMPDIR", "/tmp"));
  if (const auto job = environment.Get("SLURM_JOB_ID")) facts.batch_system = absl::StrCat("Slurm job ", *job);
  if (environment.Get("KUBERNETES_SERVICE_HOST")) facts.batch_system = "Kubernetes";
  return facts;
}

}  // namespace composer
