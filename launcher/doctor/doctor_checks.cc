// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/doctor_checks.h"

#include <sys/un.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/nvml.h"

namespace composer {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kGiB = int64_t{1} << 30;
constexpr int64_t kLittleMemory = 2 * kGiB;  // LibTorch alone maps half a GiB per rank
constexpr int64_t kLittleShm = 256 * kMiB;   // NCCL takes 9 to 33 MB per pair of GPUs; containers start with 64 MB
constexpr int64_t kFewFiles = 4096;          // a full mesh of sockets, and a pipe pair per rank
constexpr int64_t kLittleDisk = 5 * kGiB;
constexpr int64_t kNoDisk = 100 * kMiB;
constexpr int64_t kFewInodes = 1000;
constexpr double kSlowDisk = 50;      // MB/s: a checkpoint of 1 GB takes 20 s
constexpr int kHot = 87;              // degrees Celsius: data-centre GPUs slow down from there
constexpr double kUsedMemory = 0.05;  // fraction in use of a GPU that should be idle
constexpr absl::Duration kClockError = absl::Seconds(1);

using Findings = std::vector<Finding>;

std::string GiB(int64_t bytes) { return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / kGiB); }

void CheckHost(const DoctorFacts& f, Findings& out) {
  const std::string quota = f.cpu_quota > 0 ? absl::StrFormat(", %.1f by the cgroup's quota", f.cpu_quota) : "";
  Finding cpus = {Health::kOk, "host", absl::StrCat(f.host, ", Linux ", f.kernel, ", ", f.cpus, " CPUs", quota), ""};
  if (f.cpu_quota > 0 && f.cpu_quota < f.cpus * 0.9) {
    cpus.health = Health::kWarn;
    cpus.advice = absl::StrFormat("ranks start threads for %d CPUs: set OMP_NUM_THREADS to %d / ranks", f.cpus,
                                  std::max(1, static_cast<int>(f.cpu_quota)));
  }
  out.push_back(cpus);
  const int64_t memory = f.memory_limit > 0 ? std::min(f.memory_limit, f.memory_available) : f.memory_available;
  const std::string limit = f.memory_limit > 0 ? absl::StrCat(", the cgroup allows ", GiB(f.memory_limit)) : "";
  out.push_back({memory < kLittleMemory ? Health::kWarn : Health::kOk, "host",
                 absl::StrCat(GiB(f.memory_available), " of ", GiB(f.memory_bytes), " memory are free", limit),
                 memory < kLittleMemory ? "a rank needs at least 1 GiB beside the model: end other programs" : ""});
  const bool few = f.open_files_soft < kFewFiles;
  out.push_back({few ? Health::kWarn : Health::kOk, "host", absl::StrCat(f.open_files_soft, " open files are allowed"),
                 !few ? ""
                 : f.open_files_hard >= kFewFiles
                     ? absl::StrCat("ulimit -n ", kFewFiles, " before starting")
                     : "raise nofile in /etc/security/limits.conf, or LimitNOFILE= of the service"});
  if (f.shm_bytes >= 0 && f.shm_bytes < kLittleShm) {
    out.push_back({Health::kWarn, "host", absl::StrCat("/dev/shm has ", f.shm_bytes / kMiB, " MiB only"),
                   "containers: --shm-size=1g, or an emptyDir with medium: Memory at /dev/shm"});
  }
  if (!f.has_pidfd) {
    out.push_back({Health::kFail, "host", "the kernel, or a seccomp filter, refuses pidfd_open",
                   "Linux 5.3 or later is needed; allow the call in the container's seccomp profile"});
  }
  const bool worker = !f.worker_path.empty();
  out.push_back({worker ? Health::kOk : Health::kWarn, "host",
                 worker ? f.worker_path : "composer_worker is missing beside composer",
                 worker ? "" : "install both in one folder; without it only scripts and programs can be started"});
  if (!f.batch_system.empty()) out.push_back({Health::kOk, "host", absl::StrCat("in ", f.batch_system), ""});
}

void CheckGpu(int index, const GpuFacts& gpu, Findings& out) {
  const auto add = [&](Health health, const std::string& text, const std::string& advice) {
    out.push_back({health, "gpu", absl::StrCat("GPU ", index, " (", gpu.name, ") ", text), advice});
  };
  const size_t before = out.size();
  if (gpu.ecc_errors > 0) {
    add(Health::kFail, absl::StrCat("has ", gpu.ecc_errors, " uncorrected memory errors"),
        "take the node out of service and reset the GPU; results may be wrong");
  }
  if (gpu.row_failed) {
    add(Health::kFail, "has a bad row of memory that could not be replaced", "take the node out of service");
  } else if (gpu.row_pending) {
    add(Health::kWarn, "replaces a bad row of memory at its next reset", "reset the GPU (nvidia-smi -r) between jobs");
  }
  if ((gpu.throttle_reasons & (kThrottleHardware | kThrottleHardwareThermal | kThrottlePowerBrake)) != 0) {
    add(Health::kWarn, "is slowed down by its hardware", "check cooling and power (nvidia-smi -q -d PERFORMANCE)");
  } else if ((gpu.throttle_reasons & kThrottleSoftwareThermal) != 0 || gpu.temperature >= kHot) {
    add(Health::kWarn, absl::StrCat("is warm: ", gpu.temperature, " C"), "check the cooling");
  }
  if (gpu.memory_bytes > 0 &&
      static_cast<double>(gpu.memory_used) > kUsedMemory * static_cast<double>(gpu.memory_bytes)) {
    add(Health::kWarn, absl::StrCat("has ", GiB(gpu.memory_used), " of ", GiB(gpu.memory_bytes), " in use"),
        "another program runs on it (nvidia-smi)");
  }
  if (out.size() == before) add(Health::kOk, absl::StrCat("with ", GiB(gpu.memory_bytes)), "");
}

// A number of one GPU is reported once, however often it came.
void CheckXids(const std::vector<Xid>& xids, Findings& out) {
  std::map<std::pair<std::string, int>, int> times;
  for (const Xid& xid : xids) ++times[{xid.pci, xid.number}];
  for (const auto& [xid, count] : times) {
    const bool hardware = IsHardwareXid(xid.second);
    out.push_back({hardware ? Health::kFail : Health::kWarn, "gpu",
                   absl::StrCat("since this machine started, the GPU at ", xid.first, " reported ",
                                DescribeXid(xid.second), count > 1 ? absl::StrCat(" ", count, " times") : ""),
                   hardware ? "drain the node, reset the GPU, and test it (dcgmi diag -r 3)"
                            : "an error of a program more often than of the GPU; look at that job's log"});
  }
}

void CheckGpus(const DoctorFacts& f, Findings& out) {
  if (f.gpu_files == 0 && f.nvml.gpus.empty()) {
    out.push_back({Health::kOk, "gpu", "no GPU here: jobs run on CPUs", ""});
    return;
  }
  if (!f.nvml.error.empty()) {
    out.push_back({Health::kFail, "gpu", absl::StrCat(f.gpu_files, " GPU devices, but ", f.nvml.error),
                   "containers: --gpus all, or the device plugin's limits"});
  }
  if (!f.nvml.driver.empty()) out.push_back({Health::kOk, "gpu", absl::StrCat("driver ", f.nvml.driver), ""});
  for (size_t i = 0; i < f.nvml.gpus.size(); ++i) CheckGpu(static_cast<int>(i), f.nvml.gpus[i], out);
  CheckXids(f.nvml.xids, out);
  if (f.visible_devices.has_value()) {
    const bool none = f.visible_devices->empty() || absl::StartsWith(*f.visible_devices, "-");
    out.push_back({none ? Health::kWarn : Health::kOk, "gpu",
                   absl::StrCat("CUDA_VISIBLE_DEVICES is \"", *f.visible_devices, "\""),
                   none ? "it hides all GPUs: unset it" : ""});
  }
  const bool nccl = !f.nccl.empty();
  out.push_back({nccl || f.nvml.gpus.size() < 2 ? Health::kOk : Health::kWarn, "nccl",
                 nccl ? absl::StrCat("NCCL ", f.nccl) : "the loader finds no libnccl.so.2",
                 nccl ? "" : "LibTorch's wheel brings its own; a Python script needs the package nvidia-nccl"});
  if (f.locked_bytes >= 0 && !f.infiniband.empty()) {
    out.push_back({Health::kFail, "nccl", absl::StrCat("only ", f.locked_bytes / 1024, " KiB may be locked in memory"),
                   "InfiniBand needs it unlimited: ulimit -l unlimited, or LimitMEMLOCK=infinity"});
  }
}

void CheckInterfaceVariable(const DoctorFacts& f, const std::string& name, const std::string& value, Findings& out) {
  if (!NamedInterfaces(name, value, f.interfaces).empty()) return;
  out.push_back({Health::kFail, "network", absl::StrCat(name, " is \"", value, "\", but there is no such interface"),
                 absl::StrCat("there are ", DescribeInterfaces(f.interfaces),
                              "; unset it, and composer chooses the one towards the master")});
}

void CheckNetwork(const DoctorFacts& f, Findings& out) {
  const bool outside = !f.outside_source.empty();
  out.push_back({outside ? Health::kOk : Health::kWarn, "network",
                 outside ? absl::StrCat("address ", f.outside_source) : "no default route",
                 outside ? "" : "one node works; several need --local-addr when they are not in one network"});
  for (const auto& [name, value] : f.interface_variables) CheckInterfaceVariable(f, name, value, out);
  const bool loopback =
      !f.host_addresses.empty() && std::all_of(f.host_addresses.begin(), f.host_addresses.end(),
                                               [](const std::string& a) { return IsLoopbackName(a); });
  if (f.host_addresses.empty() || loopback) {
    out.push_back(
        {Health::kWarn, "network",
         f.host_addresses.empty() ? absl::StrCat("the name ", f.host, " has no address")
                                  : absl::StrCat("the name ", f.host, " is ", f.host_addresses[0], " here"),
         "programs that advertise their host's name (Gloo in Python) cannot be reached from other nodes: give it "
         "its real address in /etc/hosts"});
  }
  for (const std::string& port : f.infiniband) {
    const bool active = absl::EndsWith(port, "ACTIVE");
    out.push_back({active ? Health::kOk : Health::kWarn, "network", absl::StrCat("InfiniBand ", port),
                   active ? "" : "the cable or the subnet manager (ibstat)"});
  }
  if (!f.endpoint.has_value()) return;
  const auto& attempts = f.endpoint->attempts;
  const bool connected =
      std::any_of(attempts.begin(), attempts.end(), [](const ReachAttempt& a) { return a.error == 0; });
  out.push_back({connected ? Health::kOk : Health::kFail, "network",
                 connected ? absl::StrCat(f.endpoint->endpoint.ToString(), " accepts connections")
                           : absl::StrCat(f.endpoint->endpoint.ToString(), ": ", DescribeReachability(*f.endpoint)),
                 connected ? "" : "start node 0's launcher first, then check firewall, address and routes"});
}

void CheckClock(const DoctorFacts& f, Findings& out) {
  const bool good = f.clock_synchronised && f.clock_error <= kClockError;
  out.push_back(
      {good ? Health::kOk : Health::kWarn, "clock",
       f.clock_synchronised ? absl::StrCat("synchronised, within ", absl::FormatDuration(f.clock_error))
                            : std::string("not synchronised"),
       good ? "" : "run chrony or systemd-timesyncd: log times of nodes cannot be compared, and TLS may fail"});
}

void CheckFolder(const FolderFacts& folder, const std::string& what, Findings& out) {
  Finding finding = {Health::kOk, "disk", "", ""};
  const std::string type = folder.filesystem.empty() ? "" : absl::StrCat(" (", folder.filesystem, ")");
  finding.text = absl::StrFormat("%s %s%s: %s free, writes %.0f MB/s", what, folder.path, type, GiB(folder.free_bytes),
                                 folder.write_mb_per_s);
  if (!folder.error.empty()) {
    finding = {Health::kFail, "disk", absl::StrCat(what, " ", folder.path, ": ", folder.error),
               "choose another one, or make it writable"};
  } else if (folder.free_bytes < kNoDisk || (folder.free_files >= 0 && folder.free_files < kFewInodes)) {
    finding.health = Health::kFail;
    finding.advice = folder.free_bytes < kNoDisk ? "it is full: remove old checkpoints" : "no inodes are left (df -i)";
  } else if (folder.free_bytes < kLittleDisk && what == "run folder") {
    finding.health = Health::kWarn;
    finding.advice = "few checkpoints fit: save_num_checkpoints_to_keep, or another save_folder";
  } else if (folder.write_mb_per_s < kSlowDisk && what == "run folder") {
    finding.health = Health::kWarn;
    finding.advice = "slow: save checkpoints elsewhere (save_folder), or less often";
  }
  out.push_back(finding);
}

void CheckDisk(const DoctorFacts& f, Findings& out) {
  CheckFolder(f.run_folder, "run folder", out);
  CheckFolder(f.temp_folder, "TMPDIR", out);
  // TMPDIR/composer-XXXXXX/hub is a Unix socket.
  if (f.temp_folder.path.size() + sizeof("/composer-XXXXXX/hub") > sizeof(sockaddr_un::sun_path)) {
    out.push_back({Health::kFail, "disk", absl::StrCat("TMPDIR is too long for a Unix socket: ", f.temp_folder.path),
                   "set TMPDIR to a shorter path, such as /tmp"});
  }
}

}  // namespace

std::vector<Finding> Diagnose(const DoctorFacts& facts) {
  Findings findings;
  CheckHost(facts, findings);
  CheckGpus(facts, findings);
  CheckNetwork(facts, findings);
  CheckClock(facts, findings);
  CheckDisk(facts, findings);
  return findings;
}

Health WorstOf(const std::vector<Finding>& findings) {
  Health worst = Health::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.health);
  return worst;
}

std::string HealthName(Health health) {
  return health == Health::kOk ? "ok" : health == Health::kWarn ? "warn" : "FAIL";
}

}  // namespace composer
