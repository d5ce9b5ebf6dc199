// SPDX-License-Identifier: Apache-2.0
#include "config/job_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/yaml.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGood[] =
    "model: {name: mlp}\ntrain_dataloader: {name: gaussian_classification}\nglobal_train_batch_size: 8\n"
    "max_duration: 10ba\n";

std::string Check(const std::string& text, JobCheck check = {BuiltInSchema()}) {
  return std::string(CheckJob(*ParseYaml(text, "t.yaml"), check).message());
}

TEST(JobCheck, WhatOnlyTrainingNeedsMayBeMissingOtherwise) {
  const std::string model = "model: {name: mlp}\n";
  const JobCheck no_training = {.schema = BuiltInSchema(), .trains = false};
  EXPECT_EQ(Check(model, no_training), "");
  EXPECT_EQ(Check(model + "schedulers: {name: linear_with_warmup, t_warmup: 5ba}\n", no_training), "")
      << "its units are those of max_duration";
  for (const char* key : {"train_dataloader", "max_duration", "global_train_batch_size"})
    EXPECT_THAT(Check(model), HasSubstr(std::string(key) + ": is required"));
  EXPECT_THAT(Check("max_duration: 0ba\n", no_training), HasSubstr("max_duration: "));
  EXPECT_THAT(Check("seed: 1\n", no_training), HasSubstr("model: is required"));
}

TEST(JobCheck, AcceptsWhatIsRight) {
  EXPECT_EQ(Check(kGood), "");
  EXPECT_EQ(
      Check(std::string(kGood) +
            "save_interval: 0.5dur\neval_interval: 0\ncallbacks: [lr_monitor, {fail_at: {rank: 1}}, "
            "{memory_monitor: {memory_keys: {num_alloc_retries: a}}}, {runtime_estimator: {time_unit: days}}]\n"
            "schedulers: {name: cosine_annealing_with_warmup, t_warmup: 2ba}\nseed:\n"
            "fsdp_config: {activation_checkpointing: 2, auto_wrap: [GptBlock], mixed_precision: PURE}\n"
            "optimizers: {name: adamw, param_groups: [{pattern: '*.bias', lr: 0}]}\non_nan: skip\n"
            "eval_dataloader: [{name: gaussian_classification, label: a}, {name: text_bytes, path: x, label: b}]\n"),
      "");
}

TEST(JobCheck, NamesFieldAndPlaceOfWhatIsWrong) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"save_interval: -5ba", "t.yaml:5:16: save_interval: must not be negative, got -5ba"},
      {"save_interval: 2dur", "save_interval: is a share of the run, at most 1dur, got 2dur"},
      {"save_interval: -0.1dur", "save_interval: must not be negative"},
      {"eval_interval: -3ba", "eval_interval: must not be negative"},
      {"save_memory_interval: 0ba", "save_memory_interval: must be more than 0, got 0ba"},
      {"device_train_batch_size: 3", "device_train_batch_size: `global_train_batch_size` is given, too"},
      {"schedulers: {name: cosine_annealing_with_warmup, t_warmup: -5ba}", "schedulers.t_warmup: must not be negative"},
      {"schedulers: {name: cosine_annealing_with_warmup}", "schedulers.t_warmup: is required"},
      {"optimizers: {lr: 0.1}", "t.yaml:5:13: optimizers.name: is required: which optimizer, such as "},
      {"persistent_workers: true", "t.yaml:5:1: persistent_workers: unknown key; leave it out: workers are threads"},
      {"schedulers: {name: linear_with_warmup, t_warmup: 5sp}",
       "schedulers.t_warmup: must be in the unit of t_max (1dur)"},
      {"schedulers: [{name: linear_with_warmup, t_warmup: 5ba, t_max: 8ba}]",
       "schedulers.0.t_max: ends before max_duration"},
      {"schedulers: {name: step, step_size: 0ba}", "schedulers.step_size: must be more than 0, got 0ba"},
      {"schedulers: {name: linear, t_max: 0ba}", "schedulers.t_max: must be more than 0"},
      {"callbacks: {fail_at: {rank: 99}}", "callbacks.fail_at.rank: must be less than the number of ranks, 2, got 99"},
      {"train_subset_num_batches: 0", "train_subset_num_batches: must be at least 1, got 0"},
      {"run_folder: ''", "run_folder: must not be empty"},
      {"optimizers: {name: adamw, betas: [1, x]}", "t.yaml:5:38: optimizers.betas: expected a number, got `x`"},
      {"ddp_config: {bucket_cap_mb: fast}", "ddp_config.bucket_cap_mb: expected a number, got `fast`"},
      {"save_interval: 2iter", "save_interval: iterations need an iteration_length"},
      {"callbacks: {lr_moniter: }", "(did you mean `lr_monitor`?)"},
      {"schedulers: {name: CosineAnnealingWithWarmupScheduler}", "(did you mean `cosine_annealing_with_warmup`"},
      {"on_nan: stopp", "on_nan: `stopp` is not one of stop, skip, continue"},
      {"lr: 0.1", "lr: unknown key (did you mean `optimizers.lr`?)"},
      {"num_workers: 2", "num_workers: unknown key (did you mean `train_dataloader.num_workers`"},
      {"model.lr: 1", "unknown key"},
  };
  for (const auto& c : kCases)
    EXPECT_THAT(Check(std::string(kGood) + c.text, {BuiltInSchema(), false, 2}), HasSubstr(c.message));
}

TEST(JobCheck, ChecksDurationAndModel) {
  const auto with = [](const char* model, const char* duration) {
    return Check(absl::StrCat("model: ", model, "\ntrain_dataloader: {name: text_bytes, path: x}\n",
                              "global_train_batch_size: 8\nmax_duration: ", duration));
  };
  EXPECT_EQ(with("{name: gpt, d_model: 64, n_heads: 8}", "1h30m"), "");
  EXPECT_THAT(with("{name: gpt, d_model: 100, n_heads: 3}", "1ep"),
              HasSubstr("t.yaml:1:43: model.n_heads: n_heads (3) must divide d_model (100)"));
  EXPECT_THAT(with("{name: gpt, n_heads: 3}", "1ep"), HasSubstr("n_heads (3) must divide d_model (128)"));
  for (const char* bad : {"0ba", "-5ba", "0.5dur", "1dur", "soon"})
    EXPECT_THAT(with("{name: mlp}", bad), HasSubstr("t.yaml:4:15: max_duration: "));
  EXPECT_THAT(with("{name: mpl}", "1ep"),
              HasSubstr("`mpl` is not one of the 13 names that docs/configuration.md lists (did you mean `mlp`?)"));
  EXPECT_THAT(Check(""), HasSubstr("model: is required"));
}

TEST(JobCheck, LeavesThingsOfPluginsToTheWorker) {
  const std::string text = std::string(kGood) + "callbacks: {mine: {x: 1}}\nloggers: [{theirs: }]\nsed: 3\n";
  const std::string open = Check(text, {BuiltInSchema(), true});
  EXPECT_THAT(open, HasSubstr("sed: unknown key (did you mean `seed`?)"));
  EXPECT_THAT(open, Not(HasSubstr("mine")));
  EXPECT_THAT(Check(text), HasSubstr("`mine` is not one of the 24 names that docs/configuration.md lists"));
}

}  // namespace
}  // namespace composer
