// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/methods_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "config/schema.h"
#include "launcher/options/method_cards.h"

namespace composer {
namespace {

using testing::HasSubstr;

TEST(Methods, EveryAlgorithmHasACardWithAllItsParts) {
  std::set<std::string> names;
  for (const MethodCard& card : MethodCards()) {
    SCOPED_TRACE(card.name);
    names.insert(card.name);
    EXPECT_TRUE(absl::StartsWith(card.text, absl::StrCat("# ", card.name, "\n\n")));
    for (const char* part : {"What", "When", "Set", "Quality", "Cost", "Pitfalls", "Source"})
      EXPECT_THAT(card.text, HasSubstr(absl::StrCat("- **", part, "**: ")));
    const std::string text = card.text;
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 30) << "one screen";
  }
  for (const std::string& name : BuiltInSchema().Names("algorithm")) {
    if (name != "fused_layernorm")
      EXPECT_TRUE(names.contains(name)) << name;  // another name of low_precision_layernorm
  }
}

TEST(Methods, IndexHasALineForEach) {
  const std::string index = MethodIndex(200);
  EXPECT_THAT(index, HasSubstr("Sums of two samples and of their targets."));
  for (const MethodCard& card : MethodCards()) EXPECT_THAT(index, HasSubstr(card.name));
}

TEST(Methods, ACardEndsWithTheKeysAndTheirDefaults) {
  const auto card = DescribeMethod("mixup", 100);
  ASSERT_TRUE(card.ok()) << card.status();
  EXPECT_THAT(*card, HasSubstr("Keys of the algorithm:"));
  EXPECT_THAT(*card, HasSubstr("number 0..; default: 0.2"));
  EXPECT_THAT(*DescribeMethod("muon", 100), HasSubstr("Keys of the optimizer:"));
  EXPECT_THAT(*DescribeMethod("warmup_stable_decay", 100), HasSubstr("Keys of the scheduler:"));
  EXPECT_THAT(std::string(DescribeMethod("mixap", 100).status().message()), HasSubstr("mixup"));
}

}  // namespace
}  // namespace composer
