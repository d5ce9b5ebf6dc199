// What collectives cost on a number of GPUs, for `composer plan`: from the bandwidth of a machine's links and NCCL's
// own figures, without measuring.
//
//   time = bytes over the slowest link / its bandwidth, + what starting takes, + the latency of each hop of a ring
//
// Assumptions: nodes are full, ranks of a collective are neighbours, all links are idle otherwise, and a ring's part
// between nodes uses all network cards of a node. Trees, NVLink SHARP and networks with fewer links above than below
// are left out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "job/plan/hardware.h"

namespace composer {

// A machine that has such GPUs. Bandwidths are a GPU's in one direction, in bytes per second, as they are sold.
struct Network {
  const char* gpu;  // GpuKind::name
  int gpus_per_node;
  double inside, between;
  bool has_nvlink;
  const char* machine;  // its name, links and the year of the data sheet
};
// Returns null for a GPU of which no such machine is known.
const Network* NetworkOf(const GpuKind& gpu);

enum class RingOperation { kAllGather, kReduceScatter, kAllReduce };
// Returns the seconds of one collective of so many bytes: those of the whole tensor. `ranks` GPUs take part, of which
// `per_node` are on one node.
double CollectiveSeconds(RingOperation kind, double bytes, int ranks, int per_node, const Network& network);

// What a rank sends in a step.
struct StepTraffic {
  // Sharded parameters and their gradients: bytes of the whole units and the number of collectives.
  double gathered = 0, scattered = 0;
  int64_t gathers = 0, scatters = 0;
  // Gradients that are summed over the ranks that hold the same.
  double reduced = 0;
  int64_t reduces = 0;
  int tensor = 1, shard = 1, replicate = 1;  // the mesh: tensor-parallel ranks are neighbours, then those that shard
  double first = 0, last = 0;                // bytes of the first gather and of the last sum, which nothing hides
  bool overlaps = true;                      // the others run beside computation
};
struct NetworkTime {
  double seconds = 0;  // of all collectives
  double ends = 0;     // of those that nothing can hide
};
NetworkTime TimeOf(const StepTraffic& traffic, const Network& network);

}  // namespace composer
