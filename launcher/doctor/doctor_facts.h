// Facts that `composer doctor` finds on this machine. Nothing is judged here; doctor_checks.h does that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/env.h"
#include "launcher/doctor/gpu_facts.h"
#include "launcher/rendezvous/reachability.h"
#include "launcher/rendezvous/socket_interface.h"
#include "net/network_facts.h"

namespace composer {

struct FolderFacts {
  std::string path;
  std::string error;  // why it cannot be written to; "" if it can
  int64_t free_bytes = 0;
  int64_t free_files = -1;    // inodes; -1 if not limited
  double write_mb_per_s = 0;  // for kProbeBytes with fsync; 0 if not measured
  std::string filesystem;     // "ext4", "nfs4"; "" if unknown
};

struct DoctorFacts {
  std::string host;
  std::string kernel;    // "6.1.0-13-amd64"
  int cpus = 0;          // that this process may use
  double cpu_quota = 0;  // CPUs that the cgroup allows; 0 if there is no limit
  int64_t memory_bytes = 0;
  int64_t memory_available = 0;
  int64_t memory_limit = 0;  // of the cgroup; 0 if none
  int64_t shm_bytes = -1;    // size of /dev/shm; -1 if there is none
  int64_t open_files_soft = 0;
  int64_t open_files_hard = 0;
  int64_t locked_bytes = -1;  // RLIMIT_MEMLOCK; -1 if unlimited
  bool has_pidfd = true;
  std::string worker_path;  // composer_worker beside this binary; "" if it is missing

  std::vector<NetworkInterface> interfaces;
  std::vector<std::string> host_addresses;                 // of the host's own name
  std::string outside_source;                              // "" if there is no default route
  std::map<std::string, std::string> interface_variables;  // GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME as set
  std::optional<Reachability> endpoint;                    // as requested

  int gpu_files = 0;                           // /dev/nvidia0 …
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES
  DriverFacts nvml;
  std::string nccl;                     // version of the library that the loader finds; "" if none
  std::vector<std::string> infiniband;  // "mlx5_0 port 1: ACTIVE"

  bool clock_synchronised = false;
  absl::Duration clock_error;  // the kernel's estimate of the maximum error

  FolderFacts run_folder;
  FolderFacts temp_folder;
  std::string batch_system;  // "Slurm job 7", "Kubernetes"; "" if none
};

// Takes about a second, because it writes to the disk. Also connects to `endpoint`, which may be null, for at most 2 s.
DoctorFacts GatherDoctorFacts(const Environment& environment, const std::string& run_folder, const Endpoint* endpoint);

}  // namespace composer
