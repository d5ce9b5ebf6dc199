// SPDX-License-Identifier: Apache-2.0
#include "job/parallel/job_parallelism.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

// The sharding strategies, by the names that Composer accepts and writes.
struct StrategyRow {
  absl::string_view name;
  ShardingStrategy strategy;
  bool hybrid;
};
constexpr StrategyRow kStrategies[] = {
    {"FULL_SHARD", ShardingStrategy::kFullShard, false},
    {"SHARD_GRAD_OP", ShardingStrategy::kShardGradOp, false},
    {"NO_SHARD", ShardingStrategy::kNoShard, false},
    {"HYBRID_SHARD", ShardingStrategy::kFullShard, true},
    {"_HYBRID_SHARD_ZERO2", ShardingStrategy::kShardGradOp, true},
};

at::ScalarType AutocastType(Precision precision) {
  if (precision == Precision::kFp32) return at::kFloat;
  return precision == Precision::kAmpFp16 ? at::kHalf : at::kBFloat16;
}

at::ScalarType ReadType(ConfigMap& config, absl::string_view key, at::ScalarType fallback) {
  const std::string name = config.Choice(key, {"float32", "bfloat16", "float16", "fp32", "bf16", "fp16"}, "");
  if (name.empty()) return fallback;
  return name == "float32" || name == "fp32"    ? at::kFloat
         : name == "bfloat16" || name == "bf16" ? at::kBFloat16
                                                : at::kHalf;
}

void ReadMixedPrecision(ConfigMap& config, Precision precision, FsdpOptions& options) {
  const at::ScalarType low = AutocastType(precision);
  const bool full = config.Is("mixed_precision", "FULL"), pure = config.Is("mixed_precision", "PURE");
  const bool named = full || pure || config.Is("mixed_precision", "DEFAULT") || !config.Has("mixed_precision");
  if (named) {
    options.param_dtype = full ? at::kFloat : low;
    options.reduce_dtype = pure ? low : at::kFloat;
    return;
  }
  ConfigMap map = config.Map("mixed_precision");
  if (!map.exists()) {
    config.Reject("mixed_precision", "expected FULL, DEFAULT, PURE or {param_dtype: …, reduce_dtype: …}");
    return;
  }
  options.param_dtype = ReadType(map, "param_dtype", at::kFloat);
  options.reduce_dtype = ReadType(map, "reduce_dtype", at::kFloat);
  if (ReadType(map, "buffer_dtype", at::kFloat) != at::kFloat)
    map.Reject("buffer_dtype",
               "buffers keep the model's type: a running mean in 16 bits loses what is added to it; "
               "leave it out, or float32");
  if (options.param_dtype != at::kFloat && options.param_dtype != low)
    map.Reject("param_dtype",
               absl::StrCat("a type that `precision: ", PrecisionName(precision), "` does not compute in"));
}

void ReadMesh(ConfigMap& config, bool hybrid, FsdpOptions& options) {
  const auto shard = config.Int("data_parallel_shard_degree", -1, {.min = -1, .max = 1 << 20});
  const auto replicate = config.Int("data_parallel_replicate_degree", 1, {.min = -1, .max = 1 << 20});
  if (shard == 0 || (shard == -1 && replicate == -1))
    config.Reject("data_parallel_shard_degree",
                  "at least 1, or -1 for all ranks that data_parallel_replicate_degree leaves");
  if (replicate == 0) config.Reject("data_parallel_replicate_degree", "at least 1, or -1 for all ranks that are left");
  if (hybrid && replicate == 1)
    config.Reject("sharding_strategy", "HYBRID_SHARD needs data_parallel_replicate_degree: the number of replicas");
  options.data_parallel_shard_degree = shard == -1 ? 0 : static_cast<int>(shard);
  options.data_parallel_replicate_degree = replicate == -1 ? 0 : static_cast<int>(replicate);
}

// Accepts true, false, or types and names of blocks and layers.
void ReadWrapping(ConfigMap& config, FsdpOptions& options) {
  if (!config.Has("auto_wrap") || config.Is("auto_wrap", "true") || config.Is("auto_wrap", "false")) {
    options.auto_wrap = config.Bool("auto_wrap", true);
  } else {
    options.wrap.texts = config.StringList("auto_wrap", {});
  }
}

FsdpOptions ReadFsdp(ConfigMap& config, Precision precision) {
  FsdpOptions options;
  std::vector<absl::string_view> names;
  for (const StrategyRow& row : kStrategies) names.push_back(row.name);
  const std::string name = config.Choice("sharding_strategy", names, "FULL_SHARD");
  bool hybrid = false;
  for (const StrategyRow& row : kStrategies) {
    if (name != row.name) continue;
    options.strategy = row.strategy;
    hybrid = row.hybrid;
  }
  ReadMesh(config, hybrid, options);
  ReadMixedPrecision(config, precision, options);
  options.cpu_offload = config.Bool("cpu_offload", false);
  const std::string backward =
      config.Choice("backward_prefetch", {"BACKWARD_PRE", "BACKWARD_POST", "none"}, "BACKWARD_POST");
  options.backward_prefetch = backward == "BACKWARD_PRE"    ? BackwardPrefetch::kPre
                              : backward == "BACKWARD_POST" ? BackwardPrefetch::kPost
                                                            : BackwardPrefetch::kNone;
  const auto limit = [&](absl::string_view key) {
    return static_cast<int>(config.Int(key, 1, {.min = 1, .max = 1 << 20}));
  };
  options.backward_prefetch_limit = limit("backward_prefetch_limit");
  options.forward_prefetch = config.Bool("forward_prefetch", false);
  options.forward_prefetch_limit = limit("forward_prefetch_limit");
  options.limit_all_gathers = config.Bool("limit_all_gathers", true);
  options.overlap_communication = config.Bool("overlap_communication", true);
  options.sync_module_states = config.Bool("sync_module_states", true);
  ReadWrapping(config, options);
  options.min_num_params = config.Int("min_num_params", 0, {.min = 0});
  options.verbose = config.Bool("verbose", false);
  return options;
}

}  // namespace

std::optional<FsdpOptions> ReadParallelism(ConfigMap& root, Precision precision) {
  ConfigMap parallelism = root.Map("parallelism_config");
  const bool older = root.Has("fsdp_config");
  if (older && parallelism.exists()) {
    root.Reject("fsdp_config", "`parallelism_config` is given, too: write one of them");
    return std::nullopt;
  }
  ConfigMap fsdp = older ? root.Map("fsdp_config") : parallelism.Map("fsdp");
  if (!fsdp.exists()) return std::nullopt;
  return ReadFsdp(fsdp, precision);
}

int ReadTensorParallelDegree(ConfigMap& root) {
  ConfigMap config = root.Map("parallelism_config").Map("tp");
  return static_cast<int>(config.Int("tensor_parallel_degree", 1, {.min = 1, .max = 1 << 20}));
}

LayerPlan ReadLayerPlan(ConfigMap& root) {
  ConfigMap config = root.Map("parallelism_config").Map("tp").Map("layer_plan");
  LayerPlan plan;
  for (const std::string& layers : config.Keys()) {
    if (!config.Has(layers))
      config.Reject(layers, "expected ColwiseParallel, RowwiseParallel, GatherColwiseParallel or SequenceParallel");
    const std::string name = config.Choice(
        layers, {"ColwiseParallel", "RowwiseParallel", "GatherColwiseParallel", "SequenceParallel"}, "ColwiseParallel");
    for (const ParallelStyle style :
         {ParallelStyle::kColwise, ParallelStyle::kRowwise, ParallelStyle::kGatherColwise, ParallelStyle::kSequence}) {
      if (name == StyleName(style)) plan.push_back({layers, style});
    }
  }
  return plan;
}

}  // namespace composer
