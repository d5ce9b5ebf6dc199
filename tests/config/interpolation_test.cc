// SPDX-License-Identifier: Apache-2.0
#include "config/interpolation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "config/yaml.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

std::string Resolve(const std::string& text) {
  ConfigNode root = *ParseYaml(text, "t.yaml");
  const absl::Status status = Interpolate(Environment(Variables{{"N", "4"}, {"EMPTY", ""}}), root);
  return status.ok() ? ToYaml(root) : std::string(status.message());
}

TEST(Interpolate, ReplacesReferences) {
  EXPECT_EQ(Resolve("a: ${oc.env:N}\n"), "a: 4\n");
  EXPECT_EQ(Resolve("a: ${env:M,7}\nb: ${env:M,}\nc: ${env:EMPTY}\n"), "a: 7\nb: ~\nc: ~\n");
  EXPECT_EQ(Resolve("variables: {x: 3}\na: run-${variables.x}-${env:N}\n"), "variables:\n  x: 3\na: run-3-4\n");
  EXPECT_EQ(Resolve("v: [1, {w: 2}]\na: ${v}\n"), "v:\n  - 1\n  - w: 2\na:\n  - 1\n  - w: 2\n");
  EXPECT_EQ(Resolve("c: 1\nb: ${c}\na: ${b}\n"), "c: 1\nb: 1\na: 1\n");
  EXPECT_EQ(Resolve("c: 1\na: ${env:M,${c}}\n"), "c: 1\na: 1\n");
  EXPECT_EQ(Resolve("a: \\${x}\n"), "a: ${x}\n");
}

TEST(Interpolate, CountsAsUnquoted) {
  ConfigNode root = *ParseYaml("a: '${env:N}'\n", "t.yaml");
  ASSERT_TRUE(Interpolate(Environment(Variables{{"N", "4"}}), root).ok());
  EXPECT_FALSE(root.Find("a")->quoted);
  EXPECT_EQ(root.Find("a")->mark.ToString(), "t.yaml:1:4");
}

TEST(Interpolate, ReportsAllErrors) {
  EXPECT_EQ(Resolve("a: ${env:M}\nb: ${variables.lrr}\nvariables: {lr: 1}\n"),
            "t.yaml:1:4: the environment variable M is not set; set it, or give a default: ${oc.env:M,default}\n"
            "t.yaml:2:4: ${variables.lrr}: there is no such value (did you mean `variables.lr`?)");
  EXPECT_THAT(Resolve("a: x${b\n"), HasSubstr("t.yaml:1:4: `${` without its `}`"));
  EXPECT_THAT(Resolve("v: [1]\na: x${v}\n"), HasSubstr("${v} is a list, not a text"));
}

TEST(Interpolate, BoundsCircles) {
  EXPECT_THAT(Resolve("a: ${b}\nb: ${a}\n"), HasSubstr("refers to itself"));
  EXPECT_THAT(Resolve("a: {b: '${a}'}\n"), HasSubstr("refers to itself"));
  std::string doubling = "a0: xxxxxxxx\n";
  for (int i = 1; i < 30; ++i) {
    const std::string previous = "${a" + std::to_string(i - 1) + "}";
    doubling += "a" + std::to_string(i) + ": '" + previous + previous + "'\n";
  }
  EXPECT_THAT(Resolve(doubling), HasSubstr("too "));
}

}  // namespace
}  // namespace composer
