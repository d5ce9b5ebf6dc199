// Converts five configurations that people have, written from their documentation, and checks that each key of theirs
// is taken or answered.
// SPDX-License-Identifier: Apache-2.0
#include "config/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "config/job_check.h"
#include "config/yaml.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

Converted Convert(const std::string& name) {
  absl::StatusOr<Converted> converted =
      ConvertConfig("tests/config/foreign/" + name + ".yaml", Environment(), BuiltInSchema());
  EXPECT_TRUE(converted.ok()) << converted.status();
  return converted.ok() ? *std::move(converted) : Converted();
}

TEST(Convert, EveryKeyIsTakenOrAnswered) {
  for (const char* name : {"mpt_125m", "resnet_cifar", "bert_glue", "mnist", "llama_lora"}) {
    for (const std::string& line : Convert(name).left_out)
      EXPECT_FALSE(absl::EndsWith(line, "unknown key")) << name << ": " << line;
  }
}

TEST(Convert, PretrainingOfMptRunsAsItIs) {
  const Converted mpt = Convert("mpt_125m");
  EXPECT_THAT(mpt.to_do, IsEmpty());
  for (const char* line :
       {"  name: streaming\n", "    - shift\n", "  name: cosine_annealing_with_warmup\n", "  batch_size: 16\n",
        "  max_seq_len: ${max_seq_len}\n", "    clipping_threshold: 1.0\n", "run_name: ${variables.run_name}\n"})
    EXPECT_THAT(mpt.yaml, HasSubstr(line));
  EXPECT_THAT(mpt.left_out, Contains(StartsWith("eval_dataloader.shuffle: ")));
}

TEST(Convert, ATrainersArgumentsRun) {
  const Converted mnist = Convert("mnist");
  EXPECT_THAT(mnist.to_do, IsEmpty());
  for (const char* line :
       {"max_duration: 2\n", "  name: cosine_annealing_warm_restarts_lr\n", "  - channels_last\n", "  - cutout:\n",
        "  checkpoint_saver:\n", "global_train_batch_size: 64\n", "    sharding_strategy: SHARD_GRAD_OP\n",
        "      clipping_threshold: 1\n", "  - in_memory:\n"})
    EXPECT_THAT(mnist.yaml, HasSubstr(line));
  EXPECT_THAT(mnist.yaml, Not(HasSubstr("deepspeed")));
  for (const char* key : {"python_log_level: ", "load_progress_bar: "})
    EXPECT_THAT(mnist.left_out, Contains(StartsWith(key)));
}

TEST(Convert, WhatARunNeedsIsNotLeftOutButToDo) {
  const Converted lora = Convert("llama_lora");
  EXPECT_THAT(lora.to_do, ElementsAre(HasSubstr("llama_lora.yaml:17:3: train_dataloader.path: ")));
  for (const char* line : {"  name: hf\n", "  path: ${variables.model_name_or_path}\n", "  name: lion\n",
                           "    lora_alpha: 32\n", "    target_modules:\n      - q_proj\n      - v_proj\n"})
    EXPECT_THAT(lora.yaml, HasSubstr(line));
  EXPECT_THAT(lora.yaml, HasSubstr("    sharding_strategy: SHARD_GRAD_OP\n"));
  EXPECT_THAT(lora.left_out, Contains(StartsWith("icl_tasks: ")));
}

TEST(Convert, AResultIsConvertedToItself) {
  TempDir dir;
  for (const char* name : {"mpt_125m", "resnet_cifar", "bert_glue", "mnist", "llama_lora"}) {
    const std::string path = dir.Path("job.yaml");
    const Converted once = Convert(name);
    ASSERT_TRUE(AtomicWriteFile(path, once.yaml).ok());
    const absl::StatusOr<Converted> twice = ConvertConfig(path, Environment(), BuiltInSchema());
    ASSERT_TRUE(twice.ok()) << twice.status();
    EXPECT_EQ(twice->yaml, once.yaml) << name;
    EXPECT_THAT(twice->left_out, IsEmpty()) << absl::StrJoin(twice->left_out, "\n");
    EXPECT_EQ(twice->to_do.size(), once.to_do.size()) << name;
  }
}

TEST(Convert, WhatCannotBeReadIsAnError) {
  EXPECT_EQ(ConvertConfig("none.yaml", Environment(), BuiltInSchema()).status().code(), absl::StatusCode::kNotFound);
  TempDir dir;
  const std::string path = dir.Path("odd.yaml");
  ASSERT_TRUE(AtomicWriteFile(path, "\"a\\nb\": 1\ndevice: tpu\nseed: ${none}\n").ok());
  const Converted odd = ConvertConfig(path, Environment(), BuiltInSchema()).value();
  EXPECT_THAT(odd.left_out, Contains(StartsWith("a b: unknown key"))) << "comments stay on their line";
  EXPECT_THAT(odd.left_out, Contains(HasSubstr("device: this machine is not supported")));
  EXPECT_THAT(odd.to_do, Contains(HasSubstr("${none}: there is no such value")));
}

}  // namespace
}  // namespace composer
