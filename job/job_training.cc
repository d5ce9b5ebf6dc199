// SPDX-License-Identifier: Apache-2.0
#include "job/job_training.h"

#include <cstdint>
#include <string>

#include "absl/strings/strip.h"
#include "job/algorithms/composer_quirks.h"
#include "job/compat/compile_config.h"
#include "job/job_loaders.h"
#include "job/parallel/job_parallelism.h"
#include "job/plugin/job_time.h"

namespace composer {
namespace {

uint64_t ReadSeed(ConfigMap& root) {
  return root.Is("seed", "random") ? kSeedToSettle : static_cast<uint64_t>(root.Int("seed", 0, {.min = 0}));
}

Precision ReadPrecision(ConfigMap& root, bool gpu) {
  // On a GPU, halving the bits is the point; Composer's own default there, amp_fp16, needs loss scaling.
  const std::string name =
      root.Choice("precision", {"fp32", "amp_bf16", "amp_fp16", "amp_fp8"}, gpu ? "amp_bf16" : "fp32");
  if (name == "fp32") return Precision::kFp32;
  return name == "amp_bf16" ? Precision::kAmpBf16 : name == "amp_fp16" ? Precision::kAmpFp16 : Precision::kAmpFp8;
}

Fp8Recipe ReadPrecisionConfig(ConfigMap& root, Precision precision) {
  Fp8Recipe recipe;
  ConfigMap map = root.Map("precision_config");
  if (!map.exists()) return recipe;
  if (precision != Precision::kAmpFp8) root.Reject("precision_config", "is the recipe of `precision: amp_fp8`");
  const bool e4m3 = map.Choice("fp8_format", {"HYBRID", "E4M3"}, "HYBRID") == "E4M3";
  recipe.fp8_format = e4m3 ? Fp8Format::kE4m3 : Fp8Format::kHybrid;
  const bool current = map.Choice("scaling", {"delayed", "current"}, "delayed") == "current";
  recipe.scaling = current ? Fp8Scales::kCurrent : Fp8Scales::kDelayed;
  for (const char* key : {"amax_history_len", "amax_compute_algo"}) {
    if (current && map.Has(key)) map.Reject(key, "needs scaling: delayed");
  }
  recipe.amax_history_len = map.Int("amax_history_len", recipe.amax_history_len, {.min = 1, .max = 1 << 16});
  const bool most_recent = map.Choice("amax_compute_algo", {"max", "most_recent"}, "max") == "most_recent";
  recipe.amax_compute_algo = most_recent ? Fp8AmaxAlgo::kMostRecent : Fp8AmaxAlgo::kMax;
  recipe.margin = map.Int("margin", recipe.margin, {.min = 0, .max = 16});
  recipe.exclude.texts = map.StringList("exclude", {});
  return recipe;
}

AttentionBackend ReadAttentionBackend(ConfigMap& root, const TrainerOptions& options, bool gpu) {
  const std::string name = root.Choice("attention_backend", {"auto", "cudnn", "flash", "efficient", "math"}, "auto");
  AttentionBackend backend = AttentionBackend::kAuto;
  for (const AttentionBackend each :
       {AttentionBackend::kCudnn, AttentionBackend::kFlash, AttentionBackend::kEfficient, AttentionBackend::kMath}) {
    if (AttentionBackendName(each) == name) backend = each;
  }
  const AttentionRun run{gpu, options.precision != Precision::kFp32, options.deterministic_mode};
  if (const auto kernels = AttentionKernels(backend, run); !kernels.ok())
    root.Reject("attention_backend", absl::StripPrefix(kernels.status().message(), "attention_backend: "));
  return backend;
}

OnNan ReadOnNan(ConfigMap& root, bool composer_compat) {
  const std::string name = root.Choice("on_nan", {"stop", "skip", "continue"}, composer_compat ? "continue" : "stop");
  return name == "stop" ? OnNan::kStop : name == "skip" ? OnNan::kSkip : OnNan::kContinue;
}

// Returns 0 when not elastic.
int ReadVirtualShards(ConfigMap& root) {
  const bool elastic = root.Choice("determinism", {"none", "elastic"}, "none") == "elastic";
  const int64_t shards = root.Int("virtual_shards", kDefaultVirtualShards, {.min = 1, .max = 4096});
  if (!elastic && shards != kDefaultVirtualShards) root.Reject("virtual_shards", "needs determinism: elastic");
  return elastic ? static_cast<int>(shards) : 0;
}

void ReadCollectives(ConfigMap& root, Job& job) {
  job.dist_timeout_seconds = root.Double("dist_timeout", 300, {.min = 1});
  job.debug_collectives = root.Bool("debug_collectives", false);
  const std::string means = root.Choice("collectives", {"auto", "gloo", "shared_memory"}, "auto");
  job.collectives = means == "auto"   ? HostCollectives::kAuto
                    : means == "gloo" ? HostCollectives::kGloo
                                      : HostCollectives::kSharedMemory;
  if (job.gpu && means != "auto") root.Reject("collectives", "needs device: cpu; GPUs use NCCL");
}

}  // namespace

void ReadTraining(ConfigMap root, bool trains, Job& job) {
  TrainerOptions& options = job.options;
  if (trains && !root.Has("max_duration")) root.Reject("max_duration", "required: \"10ep\", \"500ba\", \"1h30m\"");
  options.max_duration = ReadTime(root, "max_duration", "1ep");
  if (root.Has("iteration_length")) options.iteration_length = ReadTime(root, "iteration_length", "1ep");
  options.seed = ReadSeed(root);
  options.deterministic_mode = root.Bool("deterministic_mode", false);
  options.virtual_shards = ReadVirtualShards(root);
  options.device_train_microbatch_size = ReadMicrobatchSize(root, "device_train_microbatch_size");
  options.accumulate_train_batch_on_tokens = root.Bool("accumulate_train_batch_on_tokens", false);
  options.eval_first = root.Bool("eval_first", false);
  options.train_metrics_interval = root.Int("train_metrics_interval", 1, {.min = 0});
  options.scale_schedule_ratio = root.Double("scale_schedule_ratio", 1, {.min = 1e-6});
  options.composer_compat = root.Bool("composer_compat", false);
  options.on_nan = ReadOnNan(root, options.composer_compat);
  if (options.composer_compat) options.engine.algorithm_passes.push_back(ComposersOrderAfter());
  job.gpu = root.Choice("device", {"cpu", "gpu"}, "cpu") == "gpu";
  job.allow_tf32 = root.Bool("allow_tf32", true);
  if (!job.allow_tf32 && !job.gpu) root.Reject("allow_tf32", "false needs device: gpu; a CPU has no TF32");
  job.own_kernels = root.Choice("kernels", {"auto", "off"}, "auto") == "auto";
  job.cuda_graphs = root.Bool("cuda_graphs", false);
  if (job.cuda_graphs && !job.gpu) root.Reject("cuda_graphs", "true needs device: gpu; a CPU has no graphs");
  options.precision = ReadPrecision(root, job.gpu);
  options.precision_config = ReadPrecisionConfig(root, options.precision);
  options.attention_backend = ReadAttentionBackend(root, options, job.gpu);
  options.keep_in_fp32.texts = root.StringList("keep_in_fp32", {});
  ReadCollectives(root, job);
  if (job.cuda_graphs && job.debug_collectives)
    root.Reject("debug_collectives", "does not go with cuda_graphs, whose collectives start without the host");
  ReadCompileConfig(root);
  options.fsdp = ReadParallelism(root, options.precision);
}

}  // namespace composer
