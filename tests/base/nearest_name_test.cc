// SPDX-License-Identifier: Apache-2.0
#include "base/nearest_name.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(NearestName, EditDistanceCountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("nrpoc", "nproc"), 1);
}

TEST(NearestName, FindsTheNearestAndNothingFarAway) {
  const std::vector<std::string> known = {"max_duration", "train_dataloader", "eval_interval"};
  EXPECT_EQ(NearestName("max_durtion", known), "max_duration");
  EXPECT_EQ(NearestName("Eval-Interval", known), "eval_interval");
  EXPECT_EQ(NearestName("zzz", known), "");
  EXPECT_EQ(DidYouMean("max_durations", known), " (did you mean `max_duration`?)");
}

}  // namespace
}  // namespace composer
