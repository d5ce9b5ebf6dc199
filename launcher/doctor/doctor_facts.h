// What `composer doctor` finds on this machine. Nothing is judged here; doctor_checks.h does that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/env.h"
#include "base/network_facts.h"
#include "launcher/doctor/gpu_facts.h"
#include "launcher/rendezvous/reachability.h"

namespace composer {

struct FolderFacts {
  std::string path;
  std::string error;  // why it cannot be written to; "": it can
  int64_t free_bytes = 0;
  int64_t free_files = -1;    // inodes; -1: not limited
  double write_mb_per_s = 0;  // of kProbeBytes with fsync; 0: not measured
  std::string filesystem;     // "ext4", "nfs4"; "": unknown
};

struct DoctorFacts {
  std::string host;
  std::string kernel;    // "6.1.0-13-amd64"
  int cpus = 0;          // that this process may use
  double cpu_quota = 0;  // CPUs that the cgroup allows; 0: no limit
  int64_t memory_bytes = 0;
  int64_t memory_available = 0;
  int64_t memory_limit = 0;  // of the cgroup; 0: none
  int64_t shm_bytes = -1;    // size of /dev/shm; -1: there is none
  int64_t open_files_soft = 0;
  int64_t open_files_hard = 0;
  int64_t locked_bytes = -1;  // RLIMIT_MEMLOCK; -1: unlimited
  bool has_pidfd = true;
  std::string worker_path;  // composer_worker beside this binary; "": it is missing

  std::vector<NetworkInterface> interfaces;
  std::vector<std::string> host_addresses;                 // of the host's own name
  std::string outside_source;                              // "": no default route
  std::map<std::string, std::string> interface_variables;  // GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME as set
  std::optional<Reachability> endpoint;                    // as asked for

  int gpu_files = 0;                           // /dev/nvidia0 …
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES
  DriverFacts nvml;
  std::string nccl;                     // version of the library the loader finds; "": none
  std::vector<std::string> infiniband;  // "mlx5_0 port 1: ACTIVE"

  bool clock_synchronised = false;
  absl::Duration clock_error;  // the kernel's estimate of the greatest one

  FolderFacts run_folder;
  FolderFacts temp_folder;
  std::string batch_system;  // "Slurm job 7", "Kubernetes"; "": none
};

// Takes about a second: the disk is written to. `endpoint`: also connected to, at most 2 s; may be null.
DoctorFacts GatherDoctorFacts(const Environment& environment, const std::string& run_folder, const Endpoint* endpoint);

}  // namespace composer
