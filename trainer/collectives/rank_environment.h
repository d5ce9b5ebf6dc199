// What a launcher passes to a worker through its environment. The launcher is Composer's, or another one that sets
// torchrun's variables (torchrun; srun and mpirun by way of launcher_variables.h). Without any variables, a worker is a
// world of one.
//
//   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT   as torchrun and Composer set them
//   TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT         as torchrun sets them
//   COMPOSER_HUB             gRPC address of the launcher's WorkerHub and KeyValue, "unix:/path"
//   COMPOSER_JOB             the job's name at the rendezvous
//   COMPOSER_GENERATION      the world's generation, from 1
//   COMPOSER_LAUNCH_ID       random id of the launcher that started this rank
//   COMPOSER_PROGRESS_PAGE   path of the worker's progress page (contract/progress_page.h)
//   COMPOSER_PEER_MEMORY     memory folder for the snapshots of this launcher's workers (worker/peer_store.h)
//   COMPOSER_PEER_ADDRESS    "host:port" at which other launchers reach it
//   GROUP_WORLD_SIZE         launchers in the world
//   COMPOSER_NODE_ADDRESS    address of this node that the other nodes can reach
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/env.h"

namespace composer {

struct RankEnvironment {
  int rank = 0;  // in [0, world_size)
  int world_size = 1;
  int local_rank = 0;  // in [0, local_world_size)
  int local_world_size = 1;
  int node_rank = 0;
  uint64_t generation = 0;  // 0: no launcher
  std::string launch;       // "": no launcher
  std::string job;
  std::string hub_address;         // empty: no launcher
  std::string progress_page_path;  // empty: none
  std::string node_address;        // empty: loopback
  std::string peer_memory;         // empty: none
  std::string peer_address;        // empty: there is one launcher
  int launchers = 1;
  std::string master_address;
  int master_port = 0;       // 0: none
  bool agent_store = false;  // torchrun's agent serves a TCPStore at the master's address
  std::string store_prefix;  // prefix of this attempt's keys in a store that outlives it

  // Returns whether Composer's own launcher started this worker.
  bool has_launcher() const { return !hub_address.empty(); }
  bool spans_nodes() const { return local_world_size < world_size; }
};

// Numbers must be plain decimal digits. kInvalidArgument names the variable, its value and what is allowed;
// kFailedPrecondition: there is more than one rank, but neither Composer's launcher nor MASTER_ADDR and MASTER_PORT for
// a rendezvous.
absl::StatusOr<RankEnvironment> ReadRankEnvironment(const Environment& environment);

}  // namespace composer
