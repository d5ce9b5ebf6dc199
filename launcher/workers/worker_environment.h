// The environment of one worker: torchrun's and Composer's variables together, over what the launcher inherited. Pure.
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
  // Where several launchers share a node, as Slurm's tasks do: what LOCAL_RANK and LOCAL_WORLD_SIZE say.
  int first_local_rank = 0;
  int node_workers = 0;  // 0: local_world_size
  int node_rank = 0;
  int nodes = 1;
  std::string master_address;
  std::string node_address;  // of this node, as its peers reach it
  int master_port = 0;
  int restart_count = 0;
  int max_restarts = 0;
  std::string interface;  // network interface of node_address; "": unknown, or there is one node
  int cpus = 1;           // that this launcher may use, to share between the workers
  int cpu_sharers = 0;    // workers that share them, also of other launchers; 0: local_world_size
  std::string job;        // TORCHELASTIC_RUN_ID, COMPOSER_JOB
  std::string run_name;   // COMPOSER_RUN_NAME; "": the variable stays as inherited
  uint64_t generation = 0;
  int64_t launch = 0;  // of the run; 0: of a program
  std::string hub;     // "unix:/path"
  std::string progress_page;
  std::string role = "default";
  int terminal_columns = 0;  // of the terminal that shows this rank's output as it is; 0: none does
  std::string terminal;      // its device, which knows its width at any time; "": not known
};

// OMP_NUM_THREADS, PYTHONUNBUFFERED, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME stay as the user set them.
// TORCHELASTIC_USE_AGENT_STORE is False: rank 0 of a script serves the TCPStore at MASTER_PORT itself.
Environment WorkerEnvironment(const Environment& inherited, const WorkerPlace& place);

}  // namespace composer
