// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(Environment, TellsUnsetFromEmpty) {
  Environment env({{"A", ""}, {"B", "x=y"}});
  EXPECT_EQ(env.Get("A"), "");
  EXPECT_EQ(env.Get("C"), std::nullopt);
  EXPECT_EQ(env.GetOr("C", "z"), "z");
  EXPECT_EQ(env.ToStrings(), (std::vector<std::string>{"A=", "B=x=y"}));
  env.Remove("A");
  EXPECT_EQ(env.Get("A"), std::nullopt);
}

TEST(Environment, SnapshotHasPath) { EXPECT_TRUE(Environment::FromProcess().Get("PATH").has_value()); }

}  // namespace
}  // namespace composer
