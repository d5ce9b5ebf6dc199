// SPDX-License-Identifier: Apache-2.0
#include "config/effective_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "config/interpolation.h"
#include "config/value_check.h"
#include "config/yaml.h"

namespace composer {
namespace {

std::map<std::string, Setting> Effective(const std::string& text, const Environment& env = {}) {
  ConfigNode document = *ParseYaml(text, "t.yaml");
  EXPECT_TRUE(Interpolate(env, document).ok());
  std::map<std::string, Setting> settings;
  for (Setting& setting : ListSettings(EffectiveConfig(document, BuiltInSchema()))) settings[setting.path] = setting;
  return settings;
}

TEST(EffectiveConfig, HoldsEveryDefaultWithItsOrigin) {
  auto settings = Effective(
      "model: {name: gpt, d_model: 64}\ndevice: gpu\neval_dataloader: [{name: text_bytes, path: x}]\n"
      "callbacks: [lr_monitor, {early_stopper: {monitor: a/b}}]\nloggers: {tensorboard: }\nparallelism_config: {fsdp: "
      "{}}\n");
  EXPECT_EQ(settings["optimizers.name"].value, "decoupled_sgdw");
  EXPECT_EQ(settings["optimizers.lr"].value, "0.1");
  EXPECT_EQ(settings["optimizers.lr"].origin, "default");
  EXPECT_EQ(settings["model.d_model"].origin, "t.yaml:1:29");
  EXPECT_EQ(settings["model.n_layers"].value, "4");
  EXPECT_EQ(settings["precision"].value, "amp_bf16") << "with device: gpu";
  EXPECT_EQ(settings["eval_dataloader.0.label"].value, "eval");
  EXPECT_EQ(settings["eval_dataloader.0.num_workers"].value, "0");
  EXPECT_EQ(settings["callbacks.1.early_stopper.patience"].value, "1ep");
  EXPECT_EQ(settings["callbacks.0.lr_monitor"].value, "{}");
  EXPECT_EQ(settings["loggers.tensorboard.flush_interval"].value, "100");
  EXPECT_EQ(settings["parallelism_config.fsdp.sharding_strategy"].value, "FULL_SHARD");
  EXPECT_EQ(settings["save_interval"].value, "1ep");
  EXPECT_EQ(settings["seed"].value, "0");
  EXPECT_EQ(settings.count("fsdp_config"), 0u) << "no default";
}

TEST(EffectiveConfig, AValueOfTheEnvironmentStaysAsItIsWritten) {
  Environment env;
  env.Set("SECRET", "hunter2");
  ConfigNode document = *ParseYaml(
      "variables: {k: '${oc.env:SECRET}', m: {x: 'a-${variables.k}'}}\nload_path: x-${variables.m.x}\n"
      "save_folder: ${oc.env:NONE,}\nrun_name: plain\n",
      "t.yaml");
  ASSERT_TRUE(Interpolate(env, document).ok());
  EXPECT_EQ(document.Find("load_path")->scalar, "x-a-hunter2");
  const std::string shown = ToShownYaml(document);
  EXPECT_EQ(shown.find("hunter2"), std::string::npos) << shown;
  EXPECT_EQ(ParseYaml(shown, "again")->Find("load_path")->scalar, "x-${variables.m.x}");
  EXPECT_EQ(ParseYaml(shown, "again")->Find("run_name")->scalar, "plain");
  EXPECT_EQ(document.Find("load_path")->Describe(), "`x-${variables.m.x}`");
}

// Every default of the table must be a value of its own type.
TEST(BuiltInSchema, DefaultsHaveTheirType) {
  for (const auto& [name, section] : BuiltInSchema().sections()) {
    for (const KeyRow& row : section.rows) {
      if (row.fallback.empty()) continue;
      const auto value = ParseYamlValue(row.fallback, "default");
      ASSERT_TRUE(value.ok()) << name.first << " " << name.second << " " << row.key;
      EXPECT_NE(TypeOf(*value, row.types), nullptr)
          << name.first << " " << name.second << " " << row.key << ": " << row.fallback;
    }
  }
}

TEST(Schema, RefusesWhatIsNotATable) {
  Schema schema;
  EXPECT_FALSE(schema.Add("width | int | 1 | Width.").ok()) << "no section";
  EXPECT_FALSE(schema.Add("[model x] X.\nwidth | whole | 1 | Width.").ok()) << "no type";
  EXPECT_FALSE(schema.Add("[model x] X.\nwidth | int | 1 | Width.\nwidth | int | 1 | Twice.").ok());
  EXPECT_FALSE(schema.Add("[model x] X.\nwidth | int 1-2 | 1 | Range.").ok());
  EXPECT_FALSE(schema.Add("[model x] X.\ninclude nothing").ok());
  EXPECT_TRUE(schema.sections().empty());
  EXPECT_TRUE(schema.Add("# comment\n[model x] X.\nwidth | int 1.. or one of auto | 1 | Width.\n").ok());
  EXPECT_EQ(schema.Names("model"), std::vector<std::string>{"x"});
}

}  // namespace
}  // namespace composer
