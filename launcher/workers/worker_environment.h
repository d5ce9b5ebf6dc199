// Builds the environment of one worker: torchrun's and Composer's variables on top of what the launcher inherited.
// Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/env.h"

namespace composer {

struct WorkerPlace {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  int local_world_size = 1;
  // For nodes that several launchers share, as Slurm's tasks do: LOCAL_RANK and LOCAL_WORLD_SIZE count across them.
  int first_local_rank = 0;
  int node_workers = 0;  // 0 means local_world_size
  int node_rank = 0;
  int nodes = 1;
  std::string master_address;
  std::string node_address;  // of this node, as its peers reach it
  int master_port = 0;
  int restart_count = 0;
  int max_restarts = 0;
  std::string interface;      // network interface of node_address; "" if unknown or there is one node
  int cpus = 1;               // that this launcher may use, shared between the workers
  int cpu_sharers = 0;        // workers that share them, including those of other launchers; 0 means local_world_size
  std::string job;            // sets TORCHELASTIC_RUN_ID and COMPOSER_JOB
  std::string run_name;       // sets COMPOSER_RUN_NAME; "" leaves the inherited variable
  bool without_gpus = false;  // the node has none for its workers
  uint64_t generation = 0;
  int64_t launch = 0;  // index of the launch in its run; 0 for a program
  std::string hub;     // "unix:/path"
  std::string progress_page;
  std::string role = "default";
  int terminal_columns = 0;  // of the terminal that shows this rank's output unchanged; 0 if none does
  std::string terminal;      // the terminal's device, from which its current width can be read; "" if unknown
};

// OMP_NUM_THREADS, PYTHONUNBUFFERED, GLIBC_TUNABLES, KINETO_LOG_LEVEL, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME stay
// as the user set them.
// TORCHELASTIC_USE_AGENT_STORE is False, so rank 0 of a script serves the TCPStore at MASTER_PORT itself.
Environment WorkerEnvironment(const Environment& inherited, const WorkerPlace& place);

}  // namespace composer
