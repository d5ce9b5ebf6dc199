// Decides what the flags and the environment together say about the shape of a job: how many nodes with how many
// workers, which of them this is, and where they meet. Pure. Impossible shapes are refused here, naming the values that
// exclude each other, so that no launcher waits for nodes that cannot come.
//
// The Python launcher's way: world-size > nproc means several nodes; node-rank or base-rank says which one this is, and
// master-addr and master-port say where node 0 is. WORLD_SIZE of the environment counts only if LOCAL_WORLD_SIZE
// differs from it. torchrun's way: nnodes N or MIN:MAX, and rdzv-endpoint, which the node with this address serves.
// What neither says comes from the platform (Slurm), then from the YAML file, then from the defaults.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/options.h"
#include "launcher/options/launch_options.h"
#include "net/endpoint.h"

namespace composer {

inline constexpr int kDefaultMasterPort = 29500;    // torchrun's default
inline constexpr int kDefaultEndpointPort = 29400;  // torchrun's default for c10d

// What a batch system says about the job; anything it does not say keeps its default.
struct PlatformShape {
  std::string name;  // "Slurm"; "" if none
  int nodes = 0;
  int node_rank = -1;
  int slots = 0;                   // workers of this node
  std::vector<std::string> hosts;  // by node rank
  int port = 0;
  std::string node_group;  // of this node
};

struct ShapeQuery {
  const LaunchOptions& options;
  std::string local_world_size;  // LOCAL_WORLD_SIZE of the environment; "" if unset
  int job_nproc = 0;             // the YAML file's; 0 if none
  int gpus = 0;                  // of this node
  int cpus = 1;
  PlatformShape platform;
};

// Whether this launcher starts the rendezvous. kIfLocal means: if the first endpoint is this machine's and nobody
// serves there.
enum class Hosting { kYes, kNo, kIfLocal };

struct LaunchShape {
  int slots = 1;  // workers of this node
  int min_nodes = 1;
  int max_nodes = 1;
  int world_size = 0;  // workers of all nodes as given, which all nodes must agree on; 0 means whatever the nodes bring
  int node_rank = -1;  // -1 means by order of arrival
  int base_rank = -1;  // as given or derived; -1 means the running sum of the nodes' workers
  // Where the rendezvous is: the first endpoint, then those that take over when its host is lost. Each is served by the
  // node of that rank if ranks are given, else by the node that has its address. Port 0 means any free one.
  std::vector<Endpoint> endpoints;
  Hosting hosting = Hosting::kYes;
  std::vector<OptionValue> values;  // derived settings, with origins, for --explain

  bool one_node() const { return max_nodes == 1; }
};

// Returns kInvalidArgument naming the values, where each comes from, and what would be possible.
absl::StatusOr<LaunchShape> DecideShape(const ShapeQuery& query);

}  // namespace composer
