// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/foreign_names.h"
#include "config/yaml.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns the document without deepspeed_config, or the error.
std::string Of(const std::string& deepspeed, const std::string& rest = "") {
  ConfigNode root = ParseYaml(rest + "deepspeed_config: " + deepspeed + "\n", "t.yaml").value();
  const absl::Status status = AcceptDeepSpeed(root);
  return status.ok() ? ToYaml(root) : std::string(status.message());
}

constexpr char kSharded[] = "parallelism_config:\n  fsdp:\n    sharding_strategy: ";

TEST(DeepSpeedConfig, StagesAreStrategies) {
  EXPECT_EQ(Of("{zero_optimization: {stage: 0}}"), "{}\n");
  for (const char* stage : {"1", "2"}) {
    EXPECT_EQ(Of(std::string("{zero_optimization: {stage: ") + stage + "}}"),
              std::string(kSharded) + "SHARD_GRAD_OP\n");
  }
  EXPECT_EQ(Of("{zero_optimization: {stage: 3, overlap_comm: false, offload_param: {device: cpu}, "
               "offload_optimizer: {device: none}}}"),
            std::string(kSharded) + "FULL_SHARD\n    cpu_offload: true\n    overlap_communication: false\n");
  EXPECT_THAT(Of("{zero_optimization: {stage: 4}}"), HasSubstr("zero_optimization.stage: is 0, 1, 2 or 3"));
  EXPECT_THAT(Of("{zero_optimization: {stage: 3, offload_param: {device: nvme}}}"), HasSubstr("write cpu"));
  EXPECT_THAT(Of("{zero_optimization: {offload_optimizer: {device: cpu}}}"), HasSubstr("needs stage 1, 2 or 3"));
  EXPECT_THAT(Of("{zero_optimization: {stage: 3}}", "fsdp_config: {}\n"), HasSubstr("`fsdp_config` is given, too"));
}

TEST(DeepSpeedConfig, BatchSizes) {
  EXPECT_EQ(Of("{train_batch_size: 64, train_micro_batch_size_per_gpu: 4, gradient_accumulation_steps: 2}"),
            "global_train_batch_size: 64\ndevice_train_microbatch_size: 4\n");
  EXPECT_EQ(Of("{train_micro_batch_size_per_gpu: 4, gradient_accumulation_steps: 2}"),
            "device_train_batch_size: 8\ndevice_train_microbatch_size: 4\n");
  EXPECT_EQ(Of("{train_batch_size: auto, train_micro_batch_size_per_gpu: 4}"), "device_train_microbatch_size: 4\n");
  EXPECT_EQ(Of("{train_batch_size: 64}", "global_train_batch_size: 64\n"), "global_train_batch_size: 64\n");
  EXPECT_THAT(Of("{train_batch_size: 64}", "global_train_batch_size: 32\n"),
              HasSubstr("sets `global_train_batch_size`, which is given at t.yaml:1:1"));
  EXPECT_THAT(Of("{gradient_accumulation_steps: 2}"), HasSubstr("needs train_batch_size"));
  for (const char* bad : {"0", "-1", "x", "[1]", "99999999999"})
    EXPECT_THAT(Of(std::string("{train_batch_size: ") + bad + "}"), HasSubstr("train_batch_size: expected a count"));
}

TEST(DeepSpeedConfig, PrecisionAndClipping) {
  EXPECT_EQ(Of("{fp16: {enabled: true, loss_scale: 0}, bf16: {enabled: false}}"), "precision: amp_fp16\n");
  EXPECT_EQ(Of("{bf16: {enabled: true}, fp16: {enabled: false}}"), "precision: amp_bf16\n");
  EXPECT_THAT(Of("{bf16: {enabled: true}, fp16: {enabled: true}}"), HasSubstr("both enabled"));
  EXPECT_THAT(Of("{fp16: {enabled: true, loss_scale: 128}}"), HasSubstr("only 0: the scale of losses adapts"));
  EXPECT_THAT(Of("{fp16: {enabled: true, hysteresis: 2}}"), HasSubstr("fp16.hysteresis: leave it out"));
  const std::string clipping = "gradient_clipping:\n      clipping_type: norm\n      clipping_threshold: 0.5\n";
  EXPECT_EQ(Of("{gradient_clipping: 0.5}", "algorithms: [ema]\n"), "algorithms:\n  - ema\n  - " + clipping);
  EXPECT_EQ(Of("{gradient_clipping: 0}"), "{}\n");
  EXPECT_THAT(Of("{gradient_clipping: 1}", "algorithms: {gradient_clipping: {}}\n"), HasSubstr("in `algorithms`"));
}

TEST(DeepSpeedConfig, OptimizersAndSchedules) {
  EXPECT_EQ(Of("{optimizer: {type: Adam, params: {lr: 1e-3, betas: [0.8, 0.9], adam_w_mode: false}}}"),
            "optimizers:\n  name: adam\n  lr: 1e-3\n  betas:\n    - 0.8\n    - 0.9\n");
  // Its Adam decouples weight decay, which is 0 unless it is given.
  EXPECT_EQ(Of("{optimizer: {type: Adam, params: {lr: auto}}}"), "optimizers:\n  name: adamw\n  weight_decay: 0\n");
  EXPECT_EQ(Of("{optimizer: {type: SGD, params: {lr: 1, momentum: 0.9}}}"),
            "optimizers:\n  name: sgd\n  lr: 1\n  momentum: 0.9\n");
  EXPECT_THAT(Of("{optimizer: {type: OneBitAdam, params: {lr: 1}}}"), HasSubstr("gradient_compression"));
  EXPECT_THAT(Of("{optimizer: {type: SGD, params: {eps: 1}}}"), HasSubstr("optimizer.params.eps: has no counterpart"));
  const std::string adam = "{optimizer: {type: AdamW, params: {lr: 1, weight_decay: 0.1}}, scheduler: ";
  EXPECT_EQ(Of(adam + "{type: WarmupDecayLR, params: {warmup_num_steps: 10, total_num_steps: 50, warmup_max_lr: 0.5, "
                      "warmup_type: linear}}}"),
            "optimizers:\n  name: adamw\n  lr: 0.5\n  weight_decay: 0.1\nschedulers:\n  name: linear_with_warmup\n"
            "  t_max: 50ba\n  t_warmup: 10ba\n");
  EXPECT_EQ(Of("{scheduler: {type: WarmupCosineLR, params: {warmup_type: linear, total_num_steps: 9, "
               "cos_min_ratio: 0.1, warmup_num_steps: 3}}}"),
            "schedulers:\n  name: cosine_annealing_with_warmup\n  t_max: 9ba\n  alpha_f: 0.1\n  t_warmup: 3ba\n");
  EXPECT_THAT(Of("{scheduler: {type: WarmupLR, params: {warmup_num_steps: 10}}}"), HasSubstr("write linear"));
  EXPECT_THAT(Of("{scheduler: {type: WarmupLR, params: {warmup_type: linear, warmup_max_lr: 2}}}",
                 "optimizers: {name: sgd, lr: 1}\n"),
              HasSubstr("warmup_max_lr: must be `optimizers.lr`"));
  EXPECT_THAT(Of("{scheduler: {type: OneCycle}}"), HasSubstr("one_cycle_lr"));
}

TEST(DeepSpeedConfig, TheRestIsAnErrorWithPlaceAndReason) {
  const std::string error = Of("{steps_per_print: 10, zero_optimization: {reduce_bucket_size: 5}, typo: 1, amp: {}}");
  EXPECT_THAT(error, HasSubstr("t.yaml:1:20: deepspeed_config.steps_per_print: leave it out"));
  EXPECT_THAT(error, HasSubstr("deepspeed_config.zero_optimization.reduce_bucket_size: leave it out"));
  EXPECT_THAT(error, HasSubstr("deepspeed_config.typo: has no counterpart here"));
  EXPECT_THAT(error, HasSubstr("deepspeed_config.amp: write `precision`"));
  EXPECT_THAT(Of("[1]"), HasSubstr("expected a map"));
  EXPECT_THAT(Of("{optimizer: 5}"), HasSubstr("deepspeed_config.optimizer"));
  EXPECT_EQ(Of("", "seed: 1\n"), "seed: 1\n");
  EXPECT_THAT(Of("{train_batch_size: 8}", "seed: 1\n"), Not(HasSubstr("deepspeed")));
}

}  // namespace
}  // namespace composer
