// SPDX-License-Identifier: Apache-2.0
#include "config/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace composer {
namespace {

using ::testing::HasSubstr;

ConfigNode ReadText(absl::string_view text) {
  absl::StatusOr<ConfigNode> node = ParseYaml(text, "t.yaml");
  EXPECT_TRUE(node.ok()) << node.status();
  return node.ok() ? *node : ConfigNode{};
}

std::string ErrorOf(absl::string_view text) {
  const absl::StatusOr<ConfigNode> node = ParseYaml(text, "t.yaml");
  EXPECT_EQ(node.status().code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 100);
  return std::string(node.status().message());
}

TEST(ParseYaml, KeepsKindsAndMarks) {
  const ConfigNode root = ReadText("a: 1\nb:\n  - x\n  - 'y'\nc:\nd: {e: ~}\n");
  ASSERT_TRUE(root.is_map());
  EXPECT_EQ(root.Keys(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(root.Find("a")->scalar, "1");
  EXPECT_EQ(root.Find("a")->mark.ToString(), "t.yaml:1:4");
  EXPECT_EQ(root.Find("b")->key_mark.ToString(), "t.yaml:2:1");
  EXPECT_EQ(root.FindPath("b.1")->mark.ToString(), "t.yaml:4:5");
  EXPECT_FALSE(root.FindPath("b.0")->quoted);
  EXPECT_TRUE(root.FindPath("b.1")->quoted);
  EXPECT_TRUE(root.Find("c")->is_null());
  EXPECT_TRUE(root.FindPath("d.e")->is_null());
  EXPECT_EQ(root.FindPath("b.2"), nullptr);
  EXPECT_EQ(root.FindPath("a.b"), nullptr);
}

TEST(ParseYaml, ReportsEveryDuplicateKey) {
  EXPECT_EQ(ErrorOf("a: 1\nb: 2\na: 3\nc: {x: 1, x: 2}\n"),
            "t.yaml:3:1: `a` is given twice (first at t.yaml:1:1)\n"
            "t.yaml:4:11: `x` is given twice (first at t.yaml:4:5)");
}

TEST(ParseYaml, MergesMaps) {
  const ConfigNode root = ReadText("base: &b {x: 1, y: 2}\nmore: &m {z: 3, y: 9}\nc:\n  y: 5\n  <<: [*b, *m]\n");
  EXPECT_EQ(root.FindPath("c.x")->scalar, "1");
  EXPECT_EQ(root.FindPath("c.y")->scalar, "5");
  EXPECT_EQ(root.FindPath("c.z")->scalar, "3");
  EXPECT_EQ(root.FindPath("c.<<"), nullptr);
  EXPECT_THAT(ErrorOf("a: {<<: 3}"), HasSubstr("`<<` merges maps, not `3`"));
}

TEST(ParseYaml, RefusesWhatItCannotMean) {
  EXPECT_THAT(ErrorOf("a: [1, 2"), HasSubstr("end of sequence flow not found: a `[` before this is not closed"));
  EXPECT_THAT(ErrorOf("a: {b: 1\nc: 2\n"), HasSubstr("a `{` before this is not closed by a `}`"));
  EXPECT_THAT(ErrorOf("a: b: c\n"), HasSubstr("must be in quotes"));
  EXPECT_THAT(ErrorOf("a:\n  b: 1\n c: 2\n"), HasSubstr("keys of one map must have the same indentation"));
  EXPECT_THAT(ErrorOf("a: 1\n---\nb: 2\n"), HasSubstr("one YAML document"));
  EXPECT_THAT(ErrorOf("? [1, 2]\n: 3\n"), HasSubstr("a key must be a text, not a list"));
  EXPECT_THAT(ErrorOf("a: !!python/object:os.system x"), HasSubstr("not supported"));
  EXPECT_THAT(ErrorOf("a: &x [*x]"), HasSubstr("alias"));
}

TEST(ParseYaml, BoundsHostileInput) {
  EXPECT_THAT(ErrorOf(std::string(100'000, '[')), HasSubstr("nested too deep"));
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) laughs += "*a" + std::to_string(i - 1) + (j < 9 ? ", " : "]\n");
  }
  EXPECT_THAT(ErrorOf(laughs), HasSubstr("more than 100000 values"));
}

TEST(ParseYaml, EmptyTextIsNull) {
  EXPECT_TRUE(ReadText("").is_null());
  EXPECT_TRUE(ReadText("# only a comment\n").is_null());
}

bool Same(const ConfigNode& a, const ConfigNode& b) {
  if (a.kind != b.kind || a.scalar != b.scalar || a.quoted != b.quoted || a.key != b.key) return false;
  if (a.children.size() != b.children.size()) return false;
  for (size_t i = 0; i < a.children.size(); ++i) {
    if (!Same(a.children[i], b.children[i])) return false;
  }
  return true;
}

TEST(ToYaml, ParsesToTheSameTree) {
  const ConfigNode root = ReadText(
      "a: 1_000\nb: '12'\nc: [1, {d: e, f: ~}, [], {}]\ng: |\n  two\n  lines\nh: 'null'\ni: 10ep\n"
      "'true': \"tab\\t\\\"quote\\\" \\u00e9\"\nj: ''\nk: 'a: b #c'\n'<<': 1\n");
  const ConfigNode again = ReadText(ToYaml(root));
  EXPECT_TRUE(Same(root, again)) << ToYaml(root) << "\nbecame\n" << ToYaml(again);
}

// yaml-cpp would write this text as a plain scalar and lose its end.
TEST(ToYaml, KeepsControlCharacters) {
  ConfigNode root = ReadText("a: x\n");
  root.Find("a")->scalar = "null,\x1d{a: b}]\r";
  EXPECT_EQ(ReadText(ToYaml(root)).Find("a")->scalar, root.Find("a")->scalar);
}

}  // namespace
}  // namespace composer
