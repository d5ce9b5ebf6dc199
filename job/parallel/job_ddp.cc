// SPDX-License-Identifier: Apache-2.0
#include "job/parallel/job_ddp.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"

namespace composer {
namespace {

constexpr double kMaxBucketMb = 1 << 20;

int64_t ReadBytes(ConfigMap& config, absl::string_view key, int64_t fallback) {
  const double mb = config.Double(key, static_cast<double>(fallback) / (1 << 20), {.min = 1e-6, .max = kMaxBucketMb});
  return static_cast<int64_t>(mb * (1 << 20));
}

GradientCompression ReadCompression(ConfigMap& config) {
  const std::string name = config.Choice("gradient_compression", {"none", "bf16", "bf16_sum_fp32"}, "none");
  return name == "bf16"            ? GradientCompression::kBf16
         : name == "bf16_sum_fp32" ? GradientCompression::kBf16SumFp32
                                   : GradientCompression::kNone;
}

DdpSyncStrategy ReadSyncStrategy(ConfigMap& root) {
  const std::string name =
      root.Choice("ddp_sync_strategy", {"single_auto_sync", "multi_auto_sync", "forced_sync"}, "single_auto_sync");
  return name == "multi_auto_sync" ? DdpSyncStrategy::kMultiAutoSync
         : name == "forced_sync"   ? DdpSyncStrategy::kForcedSync
                                   : DdpSyncStrategy::kSingleAutoSync;
}

// Accepts true, false, a number n for the first block of each n, or types and names of blocks and layers.
BlockChoice ReadBlockChoice(ConfigMap& config, absl::string_view key) {
  BlockChoice choice;
  if (!config.Has(key) || config.Is(key, "true") || config.Is(key, "false")) {
    choice.every = config.Bool(key, false) ? 1 : 0;
    return choice;
  }
  choice.layers.texts = config.StringList(key, {});
  int every = 0;
  if (choice.layers.texts.size() != 1 || !absl::SimpleAtoi(choice.layers.texts[0], &every)) return choice;
  choice.every = every;
  if (every < 1)
    config.Reject(
        key, "true, false, a number of at least 1 (the first of each so many blocks), or types and names of layers");
  choice.layers.texts.clear();
  return choice;
}

// llm-foundry's key: what activation_checkpointing: true, or n, chooses from.
void ReadTarget(ConfigMap& config, BlockChoice& choice) {
  std::vector<std::string> target = config.StringList("activation_checkpointing_target", {});
  if (target.empty()) return;
  if (choice.every == 0)
    config.Reject("activation_checkpointing_target",
                  "goes with `activation_checkpointing: true`, or a number n for the first of each n of them");
  choice.layers.texts = std::move(target);
}

}  // namespace

DdpOptions ReadDdp(ConfigMap& root, const std::optional<FsdpOptions>& fsdp) {
  DdpOptions options;
  options.sync_strategy = ReadSyncStrategy(root);
  ConfigMap config = root.Map("ddp_config");
  options.bucket_bytes = ReadBytes(config, "bucket_cap_mb", options.bucket_bytes);
  options.first_bucket_bytes = ReadBytes(config, "first_bucket_cap_mb", options.first_bucket_bytes);
  options.gradient_compression = ReadCompression(config);
  if (fsdp && fsdp->strategy == ShardingStrategy::kNoShard && fsdp->reduce_dtype == at::kBFloat16 &&
      !config.Has("gradient_compression"))
    options.gradient_compression = GradientCompression::kBf16;
  options.find_unused_parameters = config.Bool("find_unused_parameters", options.find_unused_parameters);
  return options;
}

ActivationOptions ReadActivations(ConfigMap& root) {
  ConfigMap config = root.Has("fsdp_config") ? root.Map("fsdp_config") : root.Map("parallelism_config").Map("fsdp");
  ActivationOptions options;
  options.checkpoint = ReadBlockChoice(config, "activation_checkpointing");
  ReadTarget(config, options.checkpoint);
  options.cpu_offload = config.Bool("activation_cpu_offload", false);
  // Accepted without effect: Composer's two implementations give the same results, and the one here has the limits of
  // neither.
  config.Bool("activation_checkpointing_reentrant", true);
  return options;
}

}  // namespace composer
