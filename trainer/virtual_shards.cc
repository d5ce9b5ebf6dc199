// SPDX-License-Identifier: Apache-2.0
#include "trainer/virtual_shards.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace composer {
namespace {

void AppendPieces(int64_t begin, int64_t end, int64_t size, int shard, std::vector<Microbatch>& plan) {
  if (size <= 0) size = std::max<int64_t>(1, end - begin);
  for (; begin < end; begin += size) plan.push_back({begin, std::min(begin + size, end), shard});
}

bool Fits(int shards, int world) {
  return shards % world == 0 && std::has_single_bit(static_cast<unsigned>(shards / world));
}

}  // namespace

std::vector<Microbatch> PlanMicrobatches(int64_t samples, int64_t size) {
  std::vector<Microbatch> plan;
  AppendPieces(0, samples, size, 0, plan);
  return plan;
}

std::vector<Microbatch> PlanVirtualShards(int64_t global_samples, int rank, int world, int shards, int64_t size) {
  const int own = shards / world;
  const auto first = [&](int shard) { return global_samples * shard / shards; };
  const int64_t start = first(rank * own);
  std::vector<Microbatch> plan;
  for (int shard = rank * own; shard < (rank + 1) * own; ++shard)
    AppendPieces(first(shard) - start, first(shard + 1) - start, size, shard, plan);
  return plan;
}

int DefaultVirtualShards(int world) {
  int shards = world;
  while (shards < 8) shards *= 2;
  return shards;
}

absl::Status ValidateVirtualShards(int shards, int world) {
  if (shards < 1 || shards > 4096)
    return absl::InvalidArgumentError(absl::StrCat("virtual_shards: ", shards, " is not allowed; 1 to 4096"));
  if (Fits(shards, world)) return absl::OkStatus();
  std::vector<int> worlds;
  for (int ranks = 1; ranks <= shards; ++ranks) {
    if (Fits(shards, ranks)) worlds.push_back(ranks);
  }
  return absl::InvalidArgumentError(absl::StrCat("determinism: elastic with virtual_shards: ", shards, " runs on ",
                                                 absl::StrJoin(worlds, ", "), " ranks, not on ", world,
                                                 ": each rank has the same number of them, a power of two"));
}

}  // namespace composer
