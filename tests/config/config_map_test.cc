// SPDX-License-Identifier: Apache-2.0
#include "config/config_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/yaml.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

ConfigNode Parse(absl::string_view text) { return *ParseYaml(text, "train.yaml"); }

TEST(ConfigMap, GivesTypedValues) {
  const ConfigNode document = Parse(
      "n: 1_000\nx: 3e-4\nb: true\ns: text\nt: 10ep\nempty:\nl: [1, 2]\nwords: [a, b]\nm: {y: 2}\n"
      "optimizers: [{name: a}, {name: b}]\ncallbacks: {speed: {window: 5}, lr: }\nvariables: {unused: 1}\n");
  ConfigReader reader(document);
  ConfigMap root = reader.root();
  EXPECT_EQ(root.Int("n", 0), 1000);
  EXPECT_EQ(root.Double("x", 0), 3e-4);
  EXPECT_TRUE(root.Bool("b", false));
  EXPECT_EQ(root.String("s"), "text");
  EXPECT_EQ(root.Time("t", "1ep"), "10ep");
  EXPECT_EQ(root.Time("absent", "1ep"), "1ep");
  EXPECT_EQ(root.Int("empty", 7), 7);
  EXPECT_FALSE(root.Has("empty"));
  EXPECT_EQ(root.IntList("l", {}), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(root.DoubleList("l", {}), (std::vector<double>{1, 2}));
  EXPECT_EQ(root.StringList("words", {}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(root.Map("m").RequiredInt("y"), 2);
  EXPECT_FALSE(root.Map("absent_map").exists());
  EXPECT_EQ(root.Map("absent_map").Int("z", 9), 9);
  std::vector<ConfigMap> optimizers = root.MapList("optimizers");
  ASSERT_EQ(optimizers.size(), 2u);
  EXPECT_EQ(optimizers[0].String("name"), "a");
  EXPECT_EQ(optimizers[1].Choice("name", {"a", "b"}, "a"), "b");
  std::vector<ConfigMap::Named> callbacks = root.NamedMaps("callbacks");
  ASSERT_EQ(callbacks.size(), 2u);
  EXPECT_EQ(callbacks[0].name, "speed");
  EXPECT_EQ(callbacks[0].map.Int("window", 1), 5);
  EXPECT_FALSE(callbacks[1].map.exists());
  EXPECT_TRUE(reader.Finish().ok()) << reader.Finish();
}

TEST(ConfigReader, ReportsAllErrorsWithTheirPlace) {
  const ConfigNode document = Parse(
      "max_duraton: 1ep\nseed: -1\nlr: '0.1'\noptimizer:\n  lr: fast\n  beta: 1\ngrad_accum: 2\n"
      "l: [1, x]\nc: blu\n");
  ConfigReader reader(document);
  ConfigMap root = reader.root();
  root.Time("max_duration", "1ep");
  EXPECT_EQ(root.Int("seed", 17, {.min = 0}), 17);
  root.Double("lr", 0);
  ConfigMap optimizer = root.Map("optimizer");
  optimizer.Double("lr", 0);
  optimizer.Double("betas", 0);
  optimizer.String("name");
  root.IntList("l", {});
  root.Choice("c", {"red", "blue"}, "red");
  root.RequiredInt("need");
  const absl::Status status = reader.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "train.yaml:2:7: seed: must be at least 0, got -1\n"
      "train.yaml:3:5: lr: expected a number, got the string \"0.1\"; remove the quotes\n"
      "train.yaml:5:7: optimizer.lr: expected a number, got `fast`\n"
      "train.yaml:5:3: optimizer.name: is required\n"
      "train.yaml:8:8: l: expected a whole number, got `x`\n"
      "train.yaml:9:4: c: `blu` is not one of red, blue (did you mean `blue`?)\n"
      "train.yaml:1:1: need: is required\n"
      "train.yaml:1:1: max_duraton: unknown key (did you mean `max_duration`?)\n"
      "train.yaml:6:3: optimizer.beta: unknown key (did you mean `betas`?)\n"
      "train.yaml:7:1: grad_accum: unknown key; use `device_train_microbatch_size`: the samples of one microbatch, "
      "not their number");
}

TEST(ConfigReader, TellsTheNewNameOfOldKeys) {
  const struct {
    const char* old_key;
    const char* new_key;
  } kCases[] = {{"grad_accum", "device_train_microbatch_size"},
                {"amp", "precision"},
                {"train_batch_size", "global_train_batch_size"},
                {"load_path_format", "load_path"},
                {"max_epochs", "max_duration"}};
  for (const auto& c : kCases) {
    const ConfigNode document = Parse(std::string(c.old_key) + ": 1\n");
    ConfigReader reader(document);
    reader.root();
    EXPECT_THAT(std::string(reader.Finish().message()), HasSubstr(std::string("use `") + c.new_key + "`"));
  }
}

TEST(ConfigMap, RefusesTheWrongShape) {
  const ConfigNode document = Parse("m: 3\nl: {a: 1}\nt: [1]\nml: [1]\n");
  ConfigReader reader(document);
  ConfigMap root = reader.root();
  EXPECT_FALSE(root.Map("m").exists());
  EXPECT_TRUE(root.IntList("l", {}).empty());
  EXPECT_EQ(root.Time("t", "1ep"), "1ep");
  EXPECT_TRUE(root.MapList("ml").empty());
  root.Reject("m", "own reason");
  EXPECT_EQ(reader.status().message(),
            "train.yaml:1:4: m: expected a map, got `3`\n"
            "train.yaml:2:4: l: expected a list of numbers, got a map\n"
            "train.yaml:3:4: t: expected a time such as 10ep, 500ba or 1dur, got a list\n"
            "train.yaml:4:6: ml.0: expected a map, got `1`\n"
            "train.yaml:1:4: m: own reason");
}

TEST(ConfigMap, WhoAsksForAKeyKnowsItAndAMistakeIsSaidOnce) {
  const ConfigNode document = ParseYaml("iteration_lenght: 1\ncallbacks: 7\n", "t.yaml").value();
  ConfigReader reader(document);
  ConfigMap root = reader.root();
  EXPECT_FALSE(root.Has("iteration_length"));
  root.NamedMaps("callbacks");
  root.NamedMaps("callbacks");
  EXPECT_EQ(reader.Finish().message(),
            "t.yaml:2:12: callbacks: expected a map, got `7`\n"
            "t.yaml:1:1: iteration_lenght: unknown key (did you mean `iteration_length`?)");
}

}  // namespace
}  // namespace composer
