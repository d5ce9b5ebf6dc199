// SPDX-License-Identifier: Apache-2.0
#include "job/plan/network.h"

#include <algorithm>

#include "absl/strings/string_view.h"

namespace composer {
namespace {

constexpr double kGB = 1e9;

// NVLink has twice these figures in both directions together; 8 b of a network's gigabits are a byte.
constexpr Network kNetworks[] = {
    {"h200-141", 8, 450 * kGB, 50 * kGB, true, "DGX H200: NVLink 4, 8 x 400 Gb/s (2023)"},
    {"h100-80", 8, 450 * kGB, 50 * kGB, true, "DGX H100: NVLink 4, 8 x 400 Gb/s (2022)"},
    {"a100-80", 8, 300 * kGB, 25 * kGB, true, "DGX A100: NVLink 3, 8 x 200 Gb/s (2020)"},
    {"a100-40", 8, 300 * kGB, 25 * kGB, true, "DGX A100: NVLink 3, 8 x 200 Gb/s (2020)"},
    {"v100-32", 8, 150 * kGB, 6.25 * kGB, true, "DGX-1: NVLink 2, 4 x 100 Gb/s (2018)"},
    {"v100-16", 8, 150 * kGB, 6.25 * kGB, true, "DGX-1: NVLink 2, 4 x 100 Gb/s (2017)"},
    {"l40s-48", 8, 32 * kGB, 6.25 * kGB, false, "g6e.48xlarge: PCIe 4, 400 Gb/s (2024)"},
    {"a10g-24", 8, 32 * kGB, 1.5625 * kGB, false, "g5.48xlarge: PCIe 4, 100 Gb/s (2021)"},
    {"l4-24", 8, 32 * kGB, 1.5625 * kGB, false, "g6.48xlarge: PCIe 4, 100 Gb/s (2024)"},
    {"t4-16", 8, 16 * kGB, 1.5625 * kGB, false, "g4dn.metal: PCIe 3, 100 Gb/s (2019)"},
};

// Of the 450 GB/s of an H100's links NCCL reaches 370 (github.com/NVIDIA/nccl-tests/issues/212, 2024-05-06), of the 300
// of an A100's 235 (as below).
constexpr double kReached = 0.8;
// NCCL's own figures for rings: github.com/NVIDIA/nccl, src/graph/tuning.cc, baseLat and hwLat, read in November 2026.
constexpr double kStart = 8.4e-6, kNvlinkHop = 3.4e-6, kPcieHop = 5.7e-6, kNetworkHop = 9.6e-6;

}  // namespace

const Network* NetworkOf(const GpuKind& gpu) {
  for (const Network& network : kNetworks) {
    if (network.gpu == absl::string_view(gpu.name)) return &network;
  }
  return nullptr;
}

double CollectiveSeconds(RingOperation kind, double bytes, int ranks, int per_node, const Network& network) {
  if (ranks <= 1) return 0;
  const int nodes = (ranks + per_node - 1) / per_node;
  // A ring leaves each node once, and there may be as many rings as GPUs on it; the other GPUs' cards are theirs.
  const double between = network.between * per_node;
  const double link = kReached * (nodes == 1 ? network.inside : std::min(network.inside, between));
  const int hops = ranks - 1, network_hops = nodes - 1;
  const double hop = network.has_nvlink ? kNvlinkHop : kPcieHop;
  const double rounds = kind == RingOperation::kAllReduce ? 2 : 1;
  return kStart + rounds * (bytes * hops / ranks / link + (hops - network_hops) * hop + network_hops * kNetworkHop);
}

NetworkTime TimeOf(const StepTraffic& traffic, const Network& network) {
  const int node = network.gpus_per_node;
  // Of the ranks that share parameters, and of those that hold the same, on one node.
  const int sharing = std::clamp(node / traffic.tensor, 1, std::max(1, traffic.shard));
  const int same = std::clamp(node / (traffic.tensor * traffic.shard), 1, std::max(1, traffic.replicate));
  const auto seconds = [&](RingOperation kind, double bytes, int64_t count, int ranks, int per_node) {
    if (count == 0) return 0.0;
    const auto times = static_cast<double>(count);
    return times * CollectiveSeconds(kind, bytes / times, ranks, per_node, network);
  };
  NetworkTime time;
  time.seconds = seconds(RingOperation::kAllGather, traffic.gathered, traffic.gathers, traffic.shard, sharing) +
                 seconds(RingOperation::kReduceScatter, traffic.scattered, traffic.scatters, traffic.shard, sharing) +
                 seconds(RingOperation::kAllReduce, traffic.reduced, traffic.reduces, traffic.replicate, same);
  if (traffic.gathers > 0) {
    time.ends = CollectiveSeconds(RingOperation::kAllGather, traffic.first, traffic.shard, sharing, network) +
                CollectiveSeconds(RingOperation::kReduceScatter, traffic.last, traffic.shard, sharing, network);
  } else if (traffic.reduces > 0) {
    time.ends = CollectiveSeconds(RingOperation::kAllReduce, traffic.last, traffic.replicate, same, network);
  }
  return time;
}

}  // namespace composer
