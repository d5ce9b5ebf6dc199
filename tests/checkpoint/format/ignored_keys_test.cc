// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/ignored_keys.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(IgnoredKeys, APatternWithAnExclamationMarkTakesBack) {
  const IgnoredKeys ignored = IgnoredKeys({"*", "!state/model/encoder.*", "model/encoder.0.*"}).WithoutStatePrefix();
  EXPECT_TRUE(ignored.Has("optimizer/encoder.1.weight/exp_avg"));
  EXPECT_FALSE(ignored.Has("model/encoder.1.weight"));
  EXPECT_TRUE(ignored.Has("model/encoder.0.weight")) << "the last that fits counts";
  EXPECT_FALSE(IgnoredKeys({"!model/*"}).Has("optimizer/x")) << "nothing is ignored that no pattern names";
}

}  // namespace
}  // namespace composer
