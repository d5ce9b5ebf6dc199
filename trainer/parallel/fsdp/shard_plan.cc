// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/shard_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace composer {
namespace {

// Computes the sizes that a MemoryPool would hold by replaying Fsdp's schedule of one steady pass.
class Replay {
 public:
  explicit Replay(const ShardPlan& plan)
      : plan_(plan), count_(plan.units.size()), overlaps_(plan.options.overlap_communication) {}

  int64_t Run() {
    Whole(0);
    for (size_t u = 1; u < count_; ++u) {
      Whole(u);
      if (overlaps_ && plan_.options.forward_prefetch) Prefetch(u, 1, plan_.options.forward_prefetch_limit);
      if (!keeps_whole()) Free(u);
    }
    Reduce(0, /*begin=*/true);
    if (!overlaps_) {
      BackwardWithoutOverlap();
      return total_;
    }
    size_t in_flight = 0;
    for (size_t u = count_; u-- > 1;) {
      Whole(u);
      if (plan_.options.backward_prefetch == BackwardPrefetch::kPre)
        Prefetch(u, -1, plan_.options.backward_prefetch_limit);
      Reduce(u, /*begin=*/true);
      if (in_flight > 0) Reduce(in_flight, /*begin=*/false);
      in_flight = u;
      Free(u);
      if (plan_.options.backward_prefetch == BackwardPrefetch::kPost)
        Prefetch(u, -1, plan_.options.backward_prefetch_limit);
    }
    return total_;
  }

 private:
  bool keeps_whole() const { return plan_.options.strategy == ShardingStrategy::kShardGradOp; }
  void Take(int64_t bytes) {
    if (bytes == 0) return;
    int64_t& spare = spare_[bytes];
    if (spare > 0) {
      --spare;
    } else {
      total_ += bytes;
    }
  }
  // Each unit is finished before the next begins.
  void BackwardWithoutOverlap() {
    for (size_t u = count_; u-- > 1;) {
      Whole(u);
      Reduce(u, /*begin=*/true);
      Reduce(u, /*begin=*/false);
      Free(u);
    }
  }
  void Whole(size_t u) {
    if (!whole_.insert(u).second) return;
    for (const PlannedShard& shard : plan_.units[u].shards) Take(shard.whole_bytes);
  }
  void Free(size_t u) {
    if (whole_.erase(u) == 0) return;
    for (const PlannedShard& shard : plan_.units[u].shards) ++spare_[shard.whole_bytes];
  }
  void Reduce(size_t u, bool begin) {
    for (const PlannedShard& shard : plan_.units[u].shards) {
      if (begin) {
        Take(shard.reduce_bytes);
      } else {
        ++spare_[shard.reduce_bytes];
      }
    }
  }
  void Prefetch(size_t u, int step, int limit) {
    auto place = static_cast<int64_t>(u);
    for (int i = 0; i < limit || !plan_.options.limit_all_gathers; ++i) {
      place += step;
      if (place < 1 || place >= static_cast<int64_t>(count_)) return;
      Whole(static_cast<size_t>(place));
    }
  }

  const ShardPlan& plan_;
  size_t count_;
  bool overlaps_;
  std::set<size_t> whole_;
  std::map<int64_t, int64_t> spare_;
  int64_t total_ = 0;
};

const char* StrategyName(const ShardPlan& plan) {
  const bool full = plan.options.strategy == ShardingStrategy::kFullShard;
  if (plan.degrees.replicate > 1) return full ? "HYBRID_SHARD" : "_HYBRID_SHARD_ZERO2";
  return full ? "FULL_SHARD" : "SHARD_GRAD_OP";
}

PlannedShard SumOf(const PlannedUnit& unit) {
  PlannedShard sum;
  for (const PlannedShard& shard : unit.shards) {
    sum.params += shard.params;
    sum.whole_bytes += shard.whole_bytes;
    sum.shard_bytes += shard.shard_bytes;
    sum.whole_before_bytes += shard.whole_before_bytes;
  }
  return sum;
}

}  // namespace

PlannedMemory MemoryOf(const ShardPlan& plan) {
  PlannedMemory memory;
  for (const PlannedUnit& unit : plan.units) {
    for (const PlannedShard& shard : unit.shards) {
      memory.parameters += shard.shard_bytes;
      if (shard.reduce_bytes == 0) continue;
      memory.gradients += shard.shard_bytes;
      memory.partial_sums += plan.partial_sums * shard.shard_bytes;
      memory.one_gradient = std::max(memory.one_gradient, shard.largest_bytes);
    }
  }
  memory.optimizer = plan.optimizer_bytes;
  memory.buffers = Replay(plan).Run();
  return memory;
}

int64_t ConstructionBytesOf(const ShardPlan& plan) {
  int64_t live = 0;
  for (const PlannedUnit& unit : plan.units) {
    for (const PlannedShard& shard : unit.shards) live += shard.whole_before_bytes;
  }
  int64_t most = live;
  for (const PlannedUnit& unit : plan.units) {
    for (const PlannedShard& shard : unit.shards) {
      live += shard.shard_bytes;
      most = std::max(most, live + shard.making_bytes);
      live -= shard.whole_before_bytes;
      if (shard.reduce_bytes > 0) live += shard.shard_bytes;
      most = std::max(most, live);
    }
  }
  return most;
}

int64_t WireBytesOf(const ShardPlan& plan) {
  const int64_t n = plan.degrees.shard, r = plan.degrees.replicate;
  int64_t bytes = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const bool again = u > 0 && plan.options.strategy == ShardingStrategy::kFullShard;
    for (const PlannedShard& shard : plan.units[u].shards) {
      bytes += (again ? 2 : 1) * shard.whole_bytes / n * (n - 1) + shard.reduce_bytes / n * (n - 1);
      if (shard.reduce_bytes > 0) bytes += 2 * shard.shard_bytes * (r - 1) / r;
    }
  }
  return bytes;
}

namespace {

std::string ConstructionText(const ShardPlan& plan) {
  int64_t whole = 0;
  for (const PlannedUnit& unit : plan.units) whole += SumOf(unit).whole_before_bytes;
  std::string text = absl::StrCat("  building the model takes ", Megabytes(ConstructionBytesOf(plan)), " at most: ");
  if (!plan.whole_because.empty()) {
    absl::StrAppend(&text, "it was whole before it was sharded (", plan.whole_because, ")");
  } else {
    absl::StrAppend(&text, "one parameter is whole at a time");
    if (whole > 0) absl::StrAppend(&text, ", but for ", Megabytes(whole), " that had memory from the beginning");
  }
  return absl::StrCat(text, "\n");
}

}  // namespace

std::string PlanText(const ShardPlan& plan, bool state_on_host) {
  std::string text = absl::StrFormat(
      "%s over %d ranks x %d replica%s, %d units; whole parameters %s, sums over ranks %s%s\n", StrategyName(plan),
      plan.degrees.shard, plan.degrees.replicate, plan.degrees.replicate == 1 ? "" : "s", plan.units.size(),
      c10::toString(plan.options.param_dtype), c10::toString(plan.options.reduce_dtype),
      plan.options.cpu_offload ? ", shards in host memory" : "");
  absl::StrAppendFormat(&text, "  %-40s %14s %14s %14s\n", "unit", "parameters", "whole", "shard");
  for (const PlannedUnit& unit : plan.units) {
    const PlannedShard sum = SumOf(unit);
    absl::StrAppendFormat(&text, "  %-40s %14d %14s %14s\n", unit.name.empty() ? "(rest of the model)" : unit.name,
                          sum.params, Megabytes(sum.whole_bytes), Megabytes(sum.shard_bytes));
  }
  PlannedMemory memory = MemoryOf(plan);
  memory.state_on_host = state_on_host;
  absl::StrAppend(&text, MemoryText(memory, plan.step));
  absl::StrAppend(&text, ConstructionText(plan));
  absl::StrAppendFormat(&text, "  a rank sends %s a step of one microbatch", Megabytes(WireBytesOf(plan)));
  return text;
}

}  // namespace composer
