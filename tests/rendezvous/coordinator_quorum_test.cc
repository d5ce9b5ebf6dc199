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

class SecondOnTheListTest : public CoordinatorTest {
 protected:
  SecondOnTheListTest()
      : CoordinatorTest({1, 3, absl::Seconds(1), GrowPolicy::kNever, /*quorum=*/true, /*holds_tie=*/false},
                        {.random = 7, .may_be_first = false}) {}
};

// Found by simulation, seed 390,783: a first world formed with a node whose connection was dead already. That node was
// in another first world meanwhile, with a smaller number and a majority's knowledge, which went on without it when it
// came back to us: with its vote, counted a second time, ours went on as well.
TEST_F(SecondOnTheListTest, AnotherFirstWorldThatAMajorityKnowsOfMustAgreeToo) {
  Join(1);
  Join(2);
  clock_.Advance(absl::Seconds(1));
  ASSERT_EQ(Tick().begun, 1'000'007u) << "two of three";
  coordinator_.WorldTaken(1, 1'000'007, clock_.Now());
  Lose(2);
  EXPECT_EQ(Join(1).begun, 0u) << "one of three knows of it";
  EXPECT_EQ(Join(12, "2", -1, In(1, 1, 2, "c0")).begun, 0u) << "node 0 of the other world may go on";
  EXPECT_EQ(coordinator_.roster().before.size(), 2u);
  EXPECT_EQ(Join(13, "3", -1, In(1, 0, 2, "c0")).begun, 1'000'008u) << "it is here as well";
}

}  // namespace
}  // namespace composer
