// SPDX-License-Identifier: Apache-2.0
#include "tests/rendezvous/coordinator_fixture.h"

namespace composer {
namespace {

using ::testing::ElementsAre;

class QuorumTest : public CoordinatorTest {
 protected:
  QuorumTest() : CoordinatorTest({1, 3, absl::Seconds(1), GrowPolicy::kNever, /*quorum=*/true}) {}
};

TEST_F(QuorumTest, AMinorityIsSentAway) {
  FormThree();
  Lose(1);
  Lose(2);
  EXPECT_EQ(Rejoin(3, In(1, 2)).begun, 0u);
  clock_.Advance(kQuorumWait);
  const auto sent = Tick();
  ASSERT_THAT(Receivers(sent), ElementsAre(3));
  EXPECT_TRUE(sent.messages[0].last);
  EXPECT_TRUE(sent.messages[0].message->refusal().passing());
  EXPECT_EQ(sent.messages[0].message->refusal().message(),
            "1 of the 3 nodes of generation 1 are here, more than half are needed");
}

TEST_F(QuorumTest, AWorldThatFewHaveHeardOfDoesNotDecideAlone) {
  FormThree();  // as far as we know: sessions 2 and 3 are already dead, and their nodes continue elsewhere
  Lose(2);
  Lose(3);
  EXPECT_EQ(Join(1).begun, 0u);
  EXPECT_EQ(coordinator_.roster().before.size(), 1u) << "the electorate of the first world: three nodes";
}

TEST_F(QuorumTest, WhenEnoughHaveTakenAWorldTheOnesBeforeItHaveNoSay) {
  FormThree();
  EXPECT_THAT(Receivers(coordinator_.WorldTaken(1, 1, clock_.Now())), ElementsAre());
  EXPECT_THAT(Receivers(coordinator_.WorldTaken(2, 7, clock_.Now())), ElementsAre()) << "another generation";
  const auto taken = coordinator_.WorldTaken(2, 1, clock_.Now());
  EXPECT_THAT(Receivers(taken), ::testing::UnorderedElementsAre(1, 2, 3));
  EXPECT_TRUE(taken.messages[0].message->has_confirmed());
  EXPECT_TRUE(coordinator_.roster().before.empty());
}

}  // namespace
}  // namespace composer
