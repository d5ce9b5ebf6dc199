// SPDX-License-Identifier: Apache-2.0
#include "config/override.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/yaml.h"

namespace composer {
namespace {

std::string Apply(const std::vector<std::string>& overrides) {
  ConfigNode root = *ParseYaml("a: 1\nm: {x: 1}\nl: [{n: 1}, 2]\n", "t.yaml");
  for (const std::string& text : overrides) {
    const absl::Status status = ApplyOverride(text, root);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      return std::string(status.message());
    }
  }
  return ToYaml(root);
}

TEST(ApplyOverride, Sets) {
  EXPECT_EQ(Apply({"a=2", "m.x=[1, 2]", "l.0.n=z", "l.2=3"}),
            "a: 2\nm:\n  x:\n    - 1\n    - 2\nl:\n  - n: z\n  - 2\n  - 3\n");
  EXPECT_EQ(Apply({"b.c.d=5", "~m", "~l"}), "a: 1\nb:\n  c:\n    d: 5\n");
  EXPECT_EQ(Apply({"a=", "++m={y: 2}", "~l.0"}), "a: ~\nm:\n  y: 2\nl:\n  - 2\n");
  EXPECT_EQ(Apply({"a=x=y", "~m", "~l"}), "a: x=y\n");
}

TEST(ApplyOverride, SaysWhatIsWrong) {
  EXPECT_EQ(Apply({"a"}), "command line `a`: expected key=value");
  EXPECT_EQ(Apply({"a..b=1"}), "command line `a..b=1`: expected key=value with a dotted key such as optimizer.lr");
  EXPECT_EQ(Apply({"+a=2"}),
            "command line `+a=2`: `+` creates a key, but this one is there already; leave the `+` out to change it");
  EXPECT_EQ(Apply({"~m.xx"}), "command line `~m.xx`: there is no `xx` to delete (did you mean `x`?)");
  EXPECT_EQ(Apply({"a.b=2"}), "command line `a.b=2`: `b` cannot be set inside `1`, which is not a map");
  EXPECT_EQ(Apply({"l.7=2"}), "command line `l.7=2`: index 7 is past the end of a list of 2");
  EXPECT_EQ(Apply({"l.n=2"}), "command line `l.n=2`: `n` is not an index into a list");
}

TEST(ApplyOverride, MarksPointToTheCommandLine) {
  ConfigNode root = *ParseYaml("a: 1\n", "t.yaml");
  ASSERT_TRUE(ApplyOverride("a={b: 2}", root).ok());
  EXPECT_EQ(root.Find("a")->mark.ToString(), "command line `a={b: 2}`");
  EXPECT_EQ(root.FindPath("a.b")->key_mark.ToString(), "command line `a={b: 2}`");
}

TEST(LooksLikeOverride, TellsKeysFromPaths) {
  for (const char* text : {"a=1", "a.b.0=x", "+a=1", "++a=1", "~a", "a-b="})
    EXPECT_TRUE(LooksLikeOverride(text)) << text;
  for (const char* text : {"train.yaml", "./a=b", "=1", "", "--flag=1"}) EXPECT_FALSE(LooksLikeOverride(text)) << text;
}

}  // namespace
}  // namespace composer
