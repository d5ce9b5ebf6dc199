// SPDX-License-Identifier: Apache-2.0
#include "config/scalar.h"

#include <gtest/gtest.h>

#include <string>

namespace composer {
namespace {

ConfigNode Scalar(const std::string& text, bool quoted = false) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::kScalar;
  node.scalar = text;
  node.quoted = quoted;
  return node;
}

TEST(ParseIntScalar, TakesWholeNumbers) {
  const struct {
    const char* text;
    int64_t value;
  } kCases[] = {{"0", 0},        {"-12", -12},    {"+5", 5},
                {"1_000", 1000}, {"1e3", 1000},   {"2.5e6", 2'500'000},
                {"3.0", 3},      {"1_0e2", 1000}, {"9223372036854775807", 9223372036854775807}};
  for (const auto& c : kCases) EXPECT_EQ(ParseIntScalar(Scalar(c.text)).value_or(-1), c.value) << c.text;
}

TEST(ParseIntScalar, RefusesTheRest) {
  for (const char* text : {"", "1.5", "1e-3", "010", "0x10", "_1", "1_", "1__0", "ten", "1e30", "nan", "inf", "10ep",
                           "9223372036854775808", "true", "1 000", "--1"}) {
    EXPECT_EQ(ParseIntScalar(Scalar(text)).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(ParseIntScalar(Scalar("5", true)).status().message(),
            "expected a whole number, got the string \"5\"; remove the quotes");
  EXPECT_EQ(ParseIntScalar(ConfigNode{}).status().message(), "expected a whole number, got nothing");
}

TEST(ParseDoubleScalar, TakesFiniteNumbers) {
  EXPECT_EQ(*ParseDoubleScalar(Scalar("3e-4")), 3e-4);
  EXPECT_EQ(*ParseDoubleScalar(Scalar("-.5")), -0.5);
  EXPECT_EQ(*ParseDoubleScalar(Scalar("1_000.5")), 1000.5);
  EXPECT_EQ(*ParseDoubleScalar(Scalar("7")), 7.0);
  for (const char* text : {".inf", "inf", "nan", "1e999", "fast", "1,5", "e5", "", "00.5"}) {
    EXPECT_FALSE(ParseDoubleScalar(Scalar(text)).ok()) << text;
  }
  EXPECT_FALSE(ParseDoubleScalar(Scalar("0.1", true)).ok());
}

TEST(ParseBoolScalar, IsStrict) {
  EXPECT_EQ(*ParseBoolScalar(Scalar("true")), true);
  EXPECT_EQ(*ParseBoolScalar(Scalar("False")), false);
  for (const char* text : {"yes", "on", "1", "0", "tRUE", "", "no"}) {
    EXPECT_FALSE(ParseBoolScalar(Scalar(text)).ok()) << text;
  }
  EXPECT_EQ(ParseBoolScalar(Scalar("true", true)).status().message(),
            "expected true or false, got the string \"true\"; remove the quotes");
}

}  // namespace
}  // namespace composer
