// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/step_message.h"

#include <gtest/gtest.h>

#include <vector>

namespace composer {
namespace {

TEST(StepMessage, SumsOverManyRanksAreExact) {
  StepMessage own;
  own.samples = (int64_t{1} << 36) - 1;
  own.tokens = 23456789012;
  own.stop_votes = 1;
  std::vector<float> sum(StepMessage::kLength, 0.0F), one(StepMessage::kLength);
  constexpr int kRanks = 4096;
  own.Encode(absl::MakeSpan(one));
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int i = 0; i < StepMessage::kLength; ++i) sum[static_cast<size_t>(i)] += one[static_cast<size_t>(i)];
  }
  const StepMessage total = StepMessage::Decode(sum);
  EXPECT_EQ(total.samples, own.samples * kRanks);
  EXPECT_EQ(total.tokens, own.tokens * kRanks);
  EXPECT_EQ(total.stop_votes, kRanks);
  EXPECT_EQ(total.drain_votes, 0);
}

TEST(StepMessage, EachVoteKeepsItsPlace) {
  StepMessage own;
  int StepMessage::* const kVotes[] = {
      &StepMessage::stop_votes, &StepMessage::drain_votes,   &StepMessage::out_of_memory,  &StepMessage::save_failures,
      &StepMessage::save_votes, &StepMessage::profile_votes, &StepMessage::with_more_parts};
  int number = 0;
  for (int StepMessage::* vote : kVotes) own.*vote = ++number;
  own.samples = 1000;
  own.seconds = 0.25;
  std::vector<float> wire(StepMessage::kLength);
  own.Encode(absl::MakeSpan(wire));
  const StepMessage total = StepMessage::Decode(wire);
  number = 0;
  for (int StepMessage::* vote : kVotes) EXPECT_EQ(total.*vote, ++number);
  EXPECT_EQ(total.samples, 1000);
  EXPECT_EQ(total.seconds, 0.25F);
}

}  // namespace
}  // namespace composer
