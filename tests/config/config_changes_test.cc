// SPDX-License-Identifier: Apache-2.0
#include "config/config_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/effective_config.h"
#include "config/yaml.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

KeptConfig Kept(const char* text) { return {EffectiveConfig(*ParseYaml(text, "t.yaml"), BuiltInSchema()), {}}; }

TEST(CompareConfigs, ClassifiesWhatChanged) {
  const KeptConfig before = Kept("model: {name: mlp}\ntrain_dataloader: {name: gaussian_classification}\noptimizers: {name: adamw, lr: 0.001}\n");
  const KeptConfig after = Kept(
      "model: {name: mlp, sizes: [64, 10]}\ntrain_dataloader: {name: gaussian_classification, num_workers: 2, seed: 1}\n"
      "optimizers: {name: adamw, lr: 0.5}\nprogress_bar: false\nseed: 0\ncallbacks: {lr_monitor: }\n");
  EXPECT_THAT(CompareConfigs(before, after),
              ElementsAre(ConfigChange{"model.sizes", "[64, 64, 64, 10]", "[64, 10]", ChangeClass::kMeaningless},
                          ConfigChange{"train_dataloader.num_workers", "0", "2", ChangeClass::kHarmless},
                          ConfigChange{"train_dataloader.seed", "0", "1", ChangeClass::kMeaningless},
                          ConfigChange{"optimizers.lr", "0.001", "0.5", ChangeClass::kNotable},
                          ConfigChange{"progress_bar", "true", "false", ChangeClass::kHarmless},
                          ConfigChange{"callbacks.lr_monitor", "", "{}", ChangeClass::kNotable},
                          ConfigChange{"callbacks", "{}", "", ChangeClass::kNotable}));
}

TEST(CompareConfigs, ADefaultThatIsWrittenDownIsNoChange) {
  EXPECT_THAT(CompareConfigs(Kept("optimizers: {name: adamw}"), Kept("optimizers: {name: adamw, lr: 0.001}\nseed: 0")), IsEmpty());
}

TEST(CompareConfigs, ComparesValuesOfTheEnvironmentByHashAlone) {
  KeptConfig before = Kept("run_folder: '${oc.env:X}'"), after = before;
  before.hashes["run_folder"] = "a";
  EXPECT_THAT(CompareConfigs(before, after), IsEmpty()) << "one side has no hash";
  after.hashes["run_folder"] = "b";
  EXPECT_THAT(CompareConfigs(before, after),
              ElementsAre(ConfigChange{"run_folder", "${oc.env:X}", "${oc.env:X} with another value", ChangeClass::kHarmless}));
}

TEST(MayChange, TakesAPathAndAllBelowIt) {
  EXPECT_TRUE(MayChange({"allow"}, "seed"));
  EXPECT_TRUE(MayChange({"train_dataloader", "seed"}, "train_dataloader.seed"));
  EXPECT_TRUE(MayChange({"seed"}, "seed"));
  EXPECT_FALSE(MayChange({"train_data"}, "train_dataloader.seed"));
  EXPECT_FALSE(MayChange({}, "seed"));
}

TEST(DescribeChanges, SaysFromWhatToWhat) {
  EXPECT_EQ(DescribeChanges({{"optimizers.lr", "0.001", "0.5"}, {"max_duration", "2ep", "3ep"}}),
            "optimizers.lr 0.001 -> 0.5, max_duration 2ep -> 3ep");
  EXPECT_EQ(DescribeChanges({{"a", "", "1"}}), "a (not given) -> 1");
}

}  // namespace
}  // namespace composer
