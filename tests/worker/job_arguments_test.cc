// Each argument of Composer's Trainer is a key of a job, or the error says why it is not.
// Source: mosaicml 0.32.1, composer/trainer/trainer.py, Trainer.__init__.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "job/job.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr const char* kArguments[] = {"model",
                                      "train_dataloader",
                                      "train_dataloader_label",
                                      "train_subset_num_batches",
                                      "spin_dataloaders",
                                      "max_duration",
                                      "algorithms",
                                      "algorithm_passes",
                                      "optimizers",
                                      "schedulers",
                                      "scale_schedule_ratio",
                                      "step_schedulers_every_batch",
                                      "eval_dataloader",
                                      "eval_interval",
                                      "eval_subset_num_batches",
                                      "callbacks",
                                      "loggers",
                                      "run_name",
                                      "progress_bar",
                                      "log_to_console",
                                      "console_stream",
                                      "console_log_interval",
                                      "log_traces",
                                      "auto_log_hparams",
                                      "load_path",
                                      "load_object_store",
                                      "load_weights_only",
                                      "load_strict_model_weights",
                                      "load_progress_bar",
                                      "load_ignore_keys",
                                      "load_exclude_algorithms",
                                      "save_folder",
                                      "save_filename",
                                      "save_latest_filename",
                                      "save_overwrite",
                                      "save_interval",
                                      "save_weights_only",
                                      "save_ignore_keys",
                                      "save_num_checkpoints_to_keep",
                                      "save_metrics",
                                      "autoresume",
                                      "parallelism_config",
                                      "device",
                                      "precision",
                                      "precision_config",
                                      "device_train_microbatch_size",
                                      "accumulate_train_batch_on_tokens",
                                      "seed",
                                      "deterministic_mode",
                                      "dist_timeout",
                                      "ddp_sync_strategy",
                                      "profiler",
                                      "python_log_level",
                                      "compile_config"};

TEST(JobArgumentsTest, EachIsAKeyOrSaysWhyNot) {
  TempDir dir;
  std::string yaml;
  for (const char* argument : kArguments) yaml += std::string(argument) + ":\n";  // null: present, but without a value
  ASSERT_TRUE(AtomicWriteFile(dir.Path("job.yaml"), yaml).ok());
  const auto job = ReadJob({.yaml_path = dir.Path("job.yaml"), .run_folder = dir.Path("run")}, Environment());
  std::set<std::string> unknown;
  for (const absl::string_view line : absl::StrSplit(job.status().message(), '\n')) {
    if (!absl::StrContains(line, ": unknown key")) continue;
    EXPECT_TRUE(absl::StrContains(line, ": unknown key; ")) << line;
    const std::vector<absl::string_view> parts = absl::StrSplit(line, ": ");
    unknown.emplace(parts.at(1));
  }
  EXPECT_THAT(unknown, UnorderedElementsAre("spin_dataloaders", "algorithm_passes", "load_object_store",
                                            "load_progress_bar", "python_log_level"));
}

TEST(JobArgumentsTest, AllMistakesOfAFileAreSaidAtOnceWithTheirPlaces) {
  TempDir dir;
  ASSERT_TRUE(AtomicWriteFile(dir.Path("job.yaml"),
                              "model: {name: mpl}\ntrain_dataloader: {name: text_bytes}\noptimizer: {name: sgd}\n"
                              "max_duratoin: 1ep\ncallbacks: [speed_monitr]\nloggers: 3\nspin_dataloaders: true\n")
                  .ok());
  const auto job = ReadJob({.yaml_path = dir.Path("job.yaml"), .run_folder = dir.Path("run")}, Environment());
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string error(job.status().message());
  for (const char* part :
       {":1:15: model.name: `mpl` is not one of ", "did you mean `mlp`?", "train_dataloader.path: is required",
        "global_train_batch_size: is required", "max_duration: is required", ":5:13: callbacks.0: `speed_monitr`",
        ":6:10: loggers: expected a map of names, or a list of them, got `3`",
        ":4:1: max_duratoin: unknown key (did you mean `max_duration`?)",
        ":7:1: spin_dataloaders: unknown key; leave it out"})
    EXPECT_THAT(error, HasSubstr(part));
}

}  // namespace
}  // namespace composer
