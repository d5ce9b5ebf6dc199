// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/failover/electorates.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

proto::Standing In(uint64_t generation, int rank) {
  proto::Standing standing;
  standing.set_generation(generation);
  standing.set_world(absl::StrCat("w", generation));
  standing.set_nodes(4);
  standing.set_node_rank(rank);
  return standing;
}

// Was rank `rank` of world 1, and has heard of nothing since.
Voter OfWorldOne(int rank) { return VoterOf(absl::StrCat("n", rank), In(1, rank)); }

TEST(Electorates, AreForgottenWhenAMajorityHasHeardOfTheNextWorld) {
  Electorates electorates(/*holds_tie=*/true);
  electorates.Follow(1, "w1", 4);
  EXPECT_FALSE(electorates.Hear(OfWorldOne(1)));
  EXPECT_FALSE(electorates.Hear(OfWorldOne(1))) << "once each";
  EXPECT_FALSE(electorates.Hear(VoterOf("new", {}))) << "was not in it";
  EXPECT_FALSE(electorates.Hear(OfWorldOne(3))) << "half, without its first node";
  EXPECT_FALSE(Agrees(electorates.votes()[0]));
  EXPECT_TRUE(electorates.Hear(OfWorldOne(0)));
  electorates.Follow(2, "w2", 3);
  ASSERT_EQ(electorates.votes().size(), 1u) << "world 1 is past";
  EXPECT_EQ(electorates.votes()[0].of, 3);
}

TEST(Electorates, MustAgreeAsLongAsTheyDoNotKnow) {
  Electorates electorates(/*holds_tie=*/true);
  electorates.Follow(1, "w1", 4);
  electorates.Follow(2, "w2", 3);
  ASSERT_EQ(electorates.votes().size(), 2u);
  electorates.StartWaiting(OfWorldOne(1));
  electorates.StartWaiting(OfWorldOne(2));
  EXPECT_FALSE(Agrees(electorates.votes()[0])) << "half";
  electorates.StartWaiting(OfWorldOne(0));
  EXPECT_TRUE(Agrees(electorates.votes()[0]));
  electorates.StopWaiting(OfWorldOne(2));
  EXPECT_TRUE(Agrees(electorates.votes()[0])) << "half, with its first node";
  electorates.StopWaiting(OfWorldOne(0));
  EXPECT_FALSE(Agrees(electorates.votes()[0]));
  EXPECT_FALSE(Agrees(electorates.votes()[1])) << "nobody of world 2 waits";
}

TEST(Electorates, EveryNodeIsAnElectorOfTheFirstWorld) {
  Electorates electorates(/*holds_tie=*/false);
  electorates.Follow(0, "", 4);
  EXPECT_FALSE(electorates.Hear(VoterOf("a", {})));
  EXPECT_FALSE(electorates.Hear(VoterOf("b", {}))) << "half is enough at the first of the list only";
  EXPECT_TRUE(electorates.Hear(VoterOf("c", {})));
}

TEST(Electorates, TravelWithTheStandings) {
  Electorates electorates(/*holds_tie=*/true);
  electorates.Follow(1, "w1", 4);
  proto::Standing standing = In(2, 0);
  electorates.Tell(OfWorldOne(3), standing.mutable_before());
  ASSERT_EQ(standing.before_size(), 1);
  EXPECT_EQ(standing.before(0).node_rank(), 3);
  Electorates successor(/*holds_tie=*/false);
  ASSERT_TRUE(Electorates::IsValid(standing.before()));
  successor.Learn(standing.before());
  const Voter voter = VoterOf("n3", standing);
  EXPECT_FALSE(successor.Hear(voter));
  EXPECT_EQ(successor.votes()[0].knowing, 1);
}

TEST(Electorates, RefuseWhatNoCoordinatorWrote) {
  proto::Standing standing;
  standing.add_before()->set_nodes(0);
  EXPECT_FALSE(Electorates::IsValid(standing.before()));
  standing.mutable_before(0)->set_nodes(3);
  EXPECT_TRUE(Electorates::IsValid(standing.before()));
  standing.mutable_before(0)->set_world(std::string(300, 'x'));
  EXPECT_FALSE(Electorates::IsValid(standing.before()));
  standing.mutable_before(0)->clear_world();
  for (int i = 0; i < 9; ++i) standing.add_before()->set_nodes(1);
  EXPECT_FALSE(Electorates::IsValid(standing.before()));
}

}  // namespace
}  // namespace composer
