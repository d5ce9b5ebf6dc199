// The expected lists of the first table were printed by `scontrol show hostnames` of Slurm 22.05;
// tests/integration/slurm_test.py compares them with the available scontrol.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/slurm_nodelist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

TEST(ParseNodeListTest, AsScontrol) {
  const std::pair<const char*, const char*> table[] = {
      {"n[001-003,7],gpu-[1-2]-[3,4],x", "n001 n002 n003 n7 gpu-1-3 gpu-1-4 gpu-2-3 gpu-2-4 x"},
      {"n[8-010]", "n8 n9 n10"},
      {"n[08-11]", "n08 n09 n10 n11"},
      {"n[9-11]", "n9 n10 n11"},
      {"n[09-010]", "n09 n10"},
      {"n[007-10]", "n007 n008 n009 n010"},
      {"n[1-2][3-4]", "n13 n14 n23 n24"},
      {"n1,n1", "n1 n1"},
      {"n[1,1]", "n1 n1"},
      {"n[4-5,1-2]", "n4 n5 n1 n2"},
      {",n1", "n1"},
      {"n1,", "n1"},
      {"n1,,n2", "n1 n2"},
      {"n1 n2", "n1 n2"},
      {"n1\nn2", "n1 n2"},
      {"n1\tn2", "n1 n2"},
      {"n[1-2] m", "n1 n2 m"},
      {"[1-2]", "1 2"},
      {"n[1-2]a[3]b[4-5]", "n1a3b4 n1a3b5 n2a3b4 n2a3b5"},
      {"n[0-0]", "n0"},
      {"n[000-001]", "n000 n001"},
      {"rack[0-1]node[0-2]", "rack0node0 rack0node1 rack0node2 rack1node0 rack1node1 rack1node2"},
      {"a-b.c_d", "a-b.c_d"},
      {"n{1-2}", "n{1-2}"},
      {"12", "12"},
      {"n[1][2][3]", "n123"},
      {"N[1-2],n1", "N1 N2 n1"},
      {"1[1-2]", "11 12"},
  };
  for (const auto& [text, expected] : table) {
    const auto names = ParseNodeList(text);
    ASSERT_TRUE(names.ok()) << text << ": " << names.status();
    EXPECT_EQ(absl::StrJoin(*names, " "), expected) << text;
  }
}

TEST(ParseNodeListTest, NamesMayGoOnAfterABracket) {
  EXPECT_THAT(*ParseNodeList("n[1-2]-ib"), testing::ElementsAre("n1-ib", "n2-ib"));
  EXPECT_THAT(*ParseNodeList("n[1-2].c.example,m"), testing::ElementsAre("n1.c.example", "n2.c.example", "m"));
}

TEST(ParseNodeListTest, Refused) {
  const std::pair<const char*, const char*> table[] = {
      {"", "names no node"},
      {",", "names no node"},
      {"n[3-1]", "`3-1` is a range that ends before"},
      {"n[]", "`` is not a"},
      {"n[1-]", "`1-` is not"},
      {"n[-1]", "`-1` is not"},
      {"n[a]", "`a` is not"},
      {"n[1-2-3]", "`1-2-3`"},
      {"n[0x1]", "`0x1`"},
      {"n[1 ]", "`1 `"},
      {"n[1, 2]", "` 2`"},
      {"n[", "[ without its ]"},
      {"n[1", "[ without"},
      {"n]", "a ] too many"},
      {"n[1-2]]", "a ] too many"},
      {"n[[1-2]]", "[ too many"},
      {"n\x01", "character"},
      {"n[1-100000000]", "more than 100000 nodes"},
      {"n[1-400][1-400]", "more than 100000"},
      {"n[99999999999999999999]", "is not a number"},
      {"n[0-18446744073709551615]", "more than 100000"},
      {"n[1-60000],m[1-60000]", "more than 100000"},
  };
  for (const auto& [text, expected] : table) {
    const auto names = ParseNodeList(text);
    EXPECT_EQ(names.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(names.status().message()), HasSubstr(expected)) << text;
  }
  EXPECT_THAT(std::string(ParseNodeList(std::string(2 << 20, 'a')).status().message()), HasSubstr("2097152 bytes"));
  EXPECT_THAT(std::string(ParseNodeList(std::string(300, 'a')).status().message()), HasSubstr("255"));
}

TEST(ParseNodeListTest, TheLargestRange) {
  const auto names = ParseNodeList("n[1-100000]");
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(names->size(), 100'000u);
  EXPECT_EQ(names->back(), "n100000");
  EXPECT_EQ(ParseNodeList("n[18446744073709551614-18446744073709551615]")->back(), "n18446744073709551615");
}

TEST(ParseTasksPerNodeTest, Counts) {
  EXPECT_THAT(*ParseTasksPerNode("8(x4),2"), testing::ElementsAre(8, 8, 8, 8, 2));
  EXPECT_THAT(*ParseTasksPerNode("2,1"), testing::ElementsAre(2, 1));
  EXPECT_THAT(*ParseTasksPerNode("1"), testing::ElementsAre(1));
  EXPECT_THAT(*ParseTasksPerNode("1(x1)"), testing::ElementsAre(1));
}

TEST(ParseTasksPerNodeTest, Refused) {
  for (const char* text : {"", ",", "8(4)", "8(x)", "8(x4", "8x4)", "(x4)", "0", "8(x0)", "-1", "8,", "8(x4)2", "65537",
                           "1(x100001)", "1(x60000),1(x60000)", " 8", "8 (x4)", "99999999999999999999"}) {
    EXPECT_EQ(ParseTasksPerNode(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace composer
