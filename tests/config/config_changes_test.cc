// SPDX-License-Identifier: Apache-2.0
#include "config/config_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/effective_config.h"
#include "config/interpolation.h"
#include "config/yaml.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Reversed(absl::string_view path, absl::string_view value) {
  return std::string(value.rbegin(), value.rend());
}

KeptConfig Kept(const char* text, const Environment& env = {}) {
  ConfigNode document = *ParseYaml(text, "t.yaml");
  EXPECT_TRUE(Interpolate(env, document).ok());
  return KeepConfig(EffectiveConfig(document, BuiltInSchema()), Reversed);
}

TEST(CompareConfigs, ClassifiesWhatChanged) {
  const KeptConfig before = Kept(
      "model: {name: mlp}\ntrain_dataloader: {name: gaussian_classification}\noptimizers: {name: adamw, lr: 0.001}\n");
  const KeptConfig after = Kept(
      "model: {name: mlp, sizes: [64, 10]}\ntrain_dataloader: {name: gaussian_classification, num_workers: 2, seed: "
      "1}\n"
      "optimizers: {name: adamw, lr: 0.5}\nprogress_bar: false\nseed: 0\ncallbacks: {lr_monitor: }\n");
  EXPECT_THAT(CompareConfigs(before, after),
              ElementsAre(ConfigChange{"callbacks.lr_monitor", "", "{}", ChangeClass::kNotable},
                          ConfigChange{"model.sizes", "[64, 64, 64, 10]", "[64, 10]", ChangeClass::kMeaningless},
                          ConfigChange{"optimizers.lr", "0.001", "0.5", ChangeClass::kNotable},
                          ConfigChange{"progress_bar", "true", "false", ChangeClass::kHarmless},
                          ConfigChange{"train_dataloader.num_workers", "0", "2", ChangeClass::kHarmless},
                          ConfigChange{"train_dataloader.seed", "0", "1", ChangeClass::kMeaningless},
                          ConfigChange{"callbacks", "{}", "", ChangeClass::kNotable}));
}

TEST(CompareConfigs, ADefaultThatIsWrittenDownIsNoChange) {
  EXPECT_THAT(CompareConfigs(Kept("optimizers: {name: adamw}"), Kept("optimizers: {name: adamw, lr: 0.001}\nseed: 0")),
              IsEmpty());
}

// Configurations that an older version kept lack the keys that came later.
TEST(CompareConfigs, AKeyThatIsNewIsNoChangeAtItsDefault) {
  const char* text = "train_dataloader: {name: text, path: x}\nseed: 1\n";
  KeptConfig before = Kept(text);
  for (const char* path : {"train_dataloader.predownload", "train_dataloader.collate.name", "on_nan"})
    EXPECT_EQ(before.settings.erase(path), 1u) << path;
  EXPECT_THAT(CompareConfigs(before, Kept(text)), IsEmpty());
  EXPECT_THAT(CompareConfigs(before, Kept("train_dataloader: {name: text, path: x, predownload: 8}\nseed: 1\n")),
              ElementsAre(ConfigChange{"train_dataloader.predownload", "", "8", ChangeClass::kHarmless}));
}

TEST(CompareConfigs, AMapThatIsWrittenIsAChangeAlsoIfAllItsKeysAreDefaults) {
  const KeptConfig before = Kept("train_dataloader: {name: text, path: x}\n");
  const std::vector<ConfigChange> changes =
      CompareConfigs(before, Kept("train_dataloader: {name: text, path: x, pack: {}}\n"));
  EXPECT_THAT(changes, testing::Contains(
                           ConfigChange{"train_dataloader.pack.max_seq_len", "", "2048", ChangeClass::kMeaningless}));
}

TEST(CompareConfigs, ComparesSecretsByHashAlone) {
  Environment env, other;
  env.Set("X", "hunter2");
  other.Set("X", "hunter3");
  const char* text = "load_path: 'a/${oc.env:X}'\nvariables: {api_key: plain}\n";
  const KeptConfig before = Kept(text, env);
  EXPECT_EQ(before.settings.at("load_path"), "a/${oc.env:X}");
  EXPECT_EQ(before.hashes.at("load_path"), "2retnuh/a");
  EXPECT_EQ(before.settings.at("variables.api_key"), "***");
  EXPECT_THAT(CompareConfigs(before, before), IsEmpty());
  KeptConfig after = Kept(text, other);
  EXPECT_THAT(CompareConfigs(before, after),
              ElementsAre(ConfigChange{"load_path", "a/${oc.env:X}", "a/${oc.env:X} with another value",
                                       ChangeClass::kHarmless}));
  after.hashes.clear();
  EXPECT_THAT(CompareConfigs(before, after), IsEmpty()) << "one side has no hash";
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
