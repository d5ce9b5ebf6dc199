// SPDX-License-Identifier: Apache-2.0
#include "trainer/elastic/virtual_shards.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace composer {
namespace {

bool IsPowerOf2(int value) { return std::has_single_bit(static_cast<unsigned>(value)); }

bool Fits(int shards, const MeshDegrees& degrees) {
  const int ranks = degrees.shard * degrees.replicate;
  return IsPowerOf2(degrees.shard) && shards % ranks == 0 &&
         (degrees.replicate == 1 || IsPowerOf2(shards / degrees.replicate));
}

SampleRange SamplesOfLeaf(int64_t leaf, int64_t leaves, int64_t global_samples) {
  return {global_samples * leaf / leaves, global_samples * (leaf + 1) / leaves};
}

// Returns the numbers of ranks that could run them with the same strategy.
std::string RanksThatFit(int shards, const MeshDegrees& degrees) {
  std::vector<int> worlds;
  const bool sharded = degrees.shard > 1;
  for (int varied = 1; varied <= shards; ++varied) {
    const MeshDegrees tried = sharded ? MeshDegrees{varied, degrees.replicate} : MeshDegrees{1, varied};
    if (Fits(shards, tried)) worlds.push_back(tried.shard * tried.replicate);
  }
  return worlds.empty() ? "no number of" : absl::StrJoin(worlds, ", ");
}

}  // namespace

std::vector<Microbatch> PlanMicrobatches(int64_t samples, int64_t size) {
  if (size <= 0) size = std::max<int64_t>(1, samples);
  std::vector<Microbatch> plan;
  for (int64_t begin = 0; begin < samples; begin += size) plan.push_back({begin, std::min(begin + size, samples), 0});
  return plan;
}

int64_t NumLeaves(int64_t global_samples, int virtual_shards, int64_t microbatch) {
  int64_t leaves = virtual_shards;
  const auto largest = [&] { return (global_samples + leaves - 1) / leaves; };
  while (microbatch > 0 && largest() > microbatch) leaves *= 2;
  return leaves;
}

int64_t NumPasses(int64_t leaves, const MeshDegrees& degrees) { return leaves / degrees.shard / degrees.replicate; }

int64_t LeafOf(const LeafPlace& place, int64_t leaves, int64_t pass) {
  const int64_t of_replica = leaves / place.degrees.replicate;
  return place.replicate * of_replica + pass * place.degrees.shard + place.shard;
}

int RankOfLeaf(int64_t leaf, int64_t leaves, const MeshDegrees& degrees) {
  const int64_t of_replica = leaves / degrees.replicate;
  return static_cast<int>(leaf / of_replica * degrees.shard + leaf % of_replica % degrees.shard);
}

// This is the smallest l with global_samples (l + 1) / leaves >= 1.
int64_t FirstLeafWithSamples(int64_t global_samples, int64_t leaves) {
  return (leaves + global_samples - 1) / global_samples - 1;
}

std::vector<SampleRange> SamplesOf(const LeafPlace& place, int64_t leaves, int64_t global_samples) {
  std::vector<SampleRange> ranges;
  for (int64_t pass = 0; pass < NumPasses(leaves, place.degrees); ++pass) {
    const SampleRange samples = SamplesOfLeaf(LeafOf(place, leaves, pass), leaves, global_samples);
    if (samples.size() == 0) continue;
    if (!ranges.empty() && ranges.back().end == samples.begin) {
      ranges.back().end = samples.end;
    } else {
      ranges.push_back(samples);
    }
  }
  return ranges;
}

std::vector<Microbatch> PlanLeaves(const LeafPlace& place, int64_t leaves, int64_t global_samples) {
  std::vector<Microbatch> plan;
  int64_t row = 0;
  for (int64_t pass = 0; pass < NumPasses(leaves, place.degrees); ++pass) {
    const int64_t leaf = LeafOf(place, leaves, pass);
    const int64_t next = row + SamplesOfLeaf(leaf, leaves, global_samples).size();
    plan.push_back({row, next, leaf});
    row = next;
  }
  return plan;
}

int DefaultVirtualShards(int world) {
  int shards = world;
  while (shards < 8) shards *= 2;
  return shards;
}

absl::Status ValidateVirtualShards(int shards, const MeshDegrees& degrees) {
  if (shards < 1 || shards > 4096)
    return absl::InvalidArgumentError(absl::StrCat("virtual_shards: ", shards, " is not allowed; 1 to 4096"));
  if (Fits(shards, degrees)) return absl::OkStatus();
  const std::string replicas =
      degrees.replicate > 1 && degrees.shard > 1 ? absl::StrCat(" in ", degrees.replicate, " replicas") : "";
  return absl::InvalidArgumentError(absl::StrCat(
      "determinism: elastic with virtual_shards: ", shards, " runs on ", RanksThatFit(shards, degrees), " ranks",
      replicas, ", not on ", degrees.shard * degrees.replicate,
      degrees.shard > 1 ? ": the ranks that share the parameters are a power of two and divide the shards of a replica"
                        : ": each rank has the same number of them, a power of two"));
}

}  // namespace composer
