// SPDX-License-Identifier: Apache-2.0
#include "config/renamed_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_map.h"
#include "config/yaml.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RenamedKeysTest, OldAndForeignNamesHaveOurs) {
  const std::pair<const char*, const char*> cases[] = {
      {"grad_accum", "use `device_train_microbatch_size`: the samples of one microbatch, not their number"},
      {"optimizer", "use `optimizers`: one optimizer"},
      {"eval_batch_size", "use `eval_dataloader`: its `batch_size`, the samples of one rank"},
      {"global_seed", "use `seed`"},
      {"lr_scheduler", "use `schedulers`"},
      {"max_epochs", "use `max_duration`: as in 10ep"},
  };
  for (const auto& [key, advice] : cases) EXPECT_EQ(RenamedKeyAdvice(key), advice);
}

TEST(RenamedKeysTest, WhatIsNotHereSaysWhy) {
  const std::pair<const char*, const char*> cases[] = {
      {"spin_dataloaders", "leave it out: which samples a batch has is a function of seed and position"},
      {"python_log_level", "there is no Python"},
      {"find_unused_parameters", "`ddp_config`"},
      {"save_name_format", "below `save_folder`"},
      {"fsdp_config.state_dict_type", "each rank writes and reads its part"},
  };
  for (const auto& [key, why] : cases) EXPECT_THAT(RenamedKeyAdvice(key), HasSubstr(why)) << key;
}

TEST(RenamedKeysTest, OnlyAtTheTop) {
  EXPECT_EQ(RenamedKeyAdvice("seed"), "");
  EXPECT_EQ(RenamedKeyAdvice("model.batch_size"), "");
  EXPECT_EQ(RenamedKeyAdvice(""), "");
}

TEST(RenamedKeysTest, AreInTheErrorInPlaceOfAGuess) {
  const ConfigNode document = ParseYaml("optimizer: {name: sgd}\noptimizrs: 1\n", "job.yaml").value();
  ConfigReader reader(document);
  reader.MakeKnown(document, "optimizers");
  const std::string error(reader.Finish().message());
  EXPECT_THAT(error, HasSubstr("job.yaml:1:1: optimizer: unknown key; use `optimizers`: one optimizer\n"));
  EXPECT_THAT(error, HasSubstr("optimizrs: unknown key (did you mean `optimizers`?)"));
  EXPECT_THAT(error, Not(HasSubstr("optimizer.name")));
}

}  // namespace
}  // namespace composer
