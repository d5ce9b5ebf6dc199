// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/weight_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(WeightNames, TheFirstRuleThatFitsCounts) {
  const std::vector<RenameRule> rules = {{"module.", ""}, {"model.layers", "blocks"}, {"model", "body"}};
  EXPECT_EQ(Renamed("module.fc.weight", rules), "fc.weight");
  EXPECT_EQ(Renamed("model.layers.0.w", rules), "blocks.0.w");
  EXPECT_EQ(Renamed("model.norm", rules), "body.norm");
  EXPECT_EQ(Renamed("lm_head.weight", rules), "lm_head.weight");
  EXPECT_EQ(Renamed("x", std::vector<RenameRule>{{"", "module."}}), "module.x");
}

TEST(WeightNames, ARuleIsTwoBeginnings) {
  EXPECT_EQ(ParseRenameRule("a.=b.")->to, "b.");
  EXPECT_EQ(ParseRenameRule("module.=")->from, "module.");
  EXPECT_EQ(ParseRenameRule("a=b=c")->to, "b=c");
  EXPECT_FALSE(ParseRenameRule("a").ok());
}

TEST(WeightNames, UselessRulesAndCollisionsAreRefused) {
  const std::vector<std::string> before = {"a.w", "b.w"};
  EXPECT_TRUE(CheckRenamed(before, std::vector<std::string>{"c.w", "b.w"}, std::vector<RenameRule>{{"a.", "c."}}).ok());
  EXPECT_THAT(std::string(CheckRenamed(before, before, std::vector<RenameRule>{{"q.", ""}}).message()),
              HasSubstr("no name begins with `q.`; the first is `a.w`"));
  EXPECT_THAT(std::string(CheckRenamed(before, std::vector<std::string>{"b.w", "b.w"}, {}).message()),
              HasSubstr("`a.w` and `b.w` would both be called `b.w`"));
}

TEST(WeightNames, SplitsInOrder) {
  EXPECT_THAT(SplitBySize(std::vector<int64_t>{4, 4, 4, 4}, 8), ElementsAre(2, 2));
  EXPECT_THAT(SplitBySize(std::vector<int64_t>{4, 5, 4}, 8), ElementsAre(1, 1, 1));
  EXPECT_THAT(SplitBySize(std::vector<int64_t>{100, 1, 1}, 8), ElementsAre(1, 2));
  EXPECT_THAT(SplitBySize(std::vector<int64_t>{1, 100, 1}, 8), ElementsAre(1, 1, 1));
  EXPECT_THAT(SplitBySize(std::vector<int64_t>{0, 0, 8, 0}, 8), ElementsAre(4));
  EXPECT_THAT(SplitBySize(std::vector<int64_t>{INT64_MAX, INT64_MAX}, INT64_MAX), ElementsAre(1, 1));
  EXPECT_THAT(SplitBySize({}, 8), ElementsAre());
}

TEST(WeightNames, ByteSizes) {
  EXPECT_EQ(*ParseByteSize("5GB"), 5'000'000'000);
  EXPECT_EQ(*ParseByteSize("200mb"), 200'000'000);
  EXPECT_EQ(*ParseByteSize("1.5KiB"), 1536);
  EXPECT_EQ(*ParseByteSize("1000"), 1000);
  EXPECT_EQ(*ParseByteSize("10B"), 10);
  for (const char* text : {"", "GB", "0", "-1GB", "nan", "inf", "1e30", "5 apples"})
    EXPECT_FALSE(ParseByteSize(text).ok()) << text;
}

TEST(WeightNames, TheIndexNamesFilesBesideIt) {
  EXPECT_THAT(*FilesOfWeightIndex(
                  R"({"metadata":{},"weight_map":{"b":"2.safetensors","a":"1.safetensors","c":"2.safetensors"}})"),
              ElementsAre("1.safetensors", "2.safetensors"));
  for (const char* text :
       {"", "[]", "{}", R"({"weight_map":{}})", R"({"weight_map":{"a":1}})", R"({"weight_map":{"a":"../x"}})",
        R"({"weight_map":{"a":"/etc/passwd"}})", R"({"weight_map":{"a":".hidden"}})", R"({"weight_map":{"a":""}})",
        R"({"weight_map":{"a":"x","a":"y"}})"})
    EXPECT_EQ(FilesOfWeightIndex(text).status().code(), absl::StatusCode::kDataLoss) << text;
}

}  // namespace
}  // namespace composer
