// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/failover/quorum_history.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

proto::MembershipRecord In(uint64_t generation, int rank) {
  proto::MembershipRecord record;
  record.set_generation(generation);
  record.set_world(absl::StrCat("w", generation));
  record.set_nodes(4);
  record.set_node_rank(rank);
  return record;
}

// Returns a voter that was rank `rank` of world 1 and has heard of nothing since.
Voter OfWorldOne(int rank) { return VoterOf(absl::StrCat("n", rank), In(1, rank)); }

TEST(QuorumHistory, AreForgottenWhenAMajorityHasHeardOfTheNextWorld) {
  QuorumHistory electorates(/*holds_tie=*/true);
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

TEST(QuorumHistory, MustAgreeAsLongAsTheyDoNotKnow) {
  QuorumHistory electorates(/*holds_tie=*/true);
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

TEST(QuorumHistory, EveryNodeIsAnElectorOfTheFirstWorld) {
  QuorumHistory electorates(/*holds_tie=*/false);
  electorates.Follow(0, "", 4);
  EXPECT_FALSE(electorates.Hear(VoterOf("a", {})));
  EXPECT_FALSE(electorates.Hear(VoterOf("b", {}))) << "half is enough at the first of the list only";
  EXPECT_TRUE(electorates.Hear(VoterOf("c", {})));
}

TEST(QuorumHistory, OfFirstWorldsTheOthersThatAMajorityKnowsOfMustAgree) {
  QuorumHistory electorates(/*holds_tie=*/false);
  const auto agree = [&] { return std::all_of(electorates.votes().begin(), electorates.votes().end(), Agrees); };
  electorates.Follow(0, "", 7);
  for (const char* name : {"a", "b", "c"}) electorates.StartWaiting(VoterOf(name, {}));
  EXPECT_FALSE(agree());
  proto::MembershipRecord unsure = In(5, 2);
  electorates.Tell(VoterOf("d", {}), unsure.mutable_before());
  electorates.StartWaiting(VoterOf("d", unsure));
  EXPECT_TRUE(agree()) << "a world that its node does not know to be known counts for nothing";
  electorates.StartWaiting(OfWorldOne(1));
  ASSERT_EQ(electorates.votes().size(), 2u);
  EXPECT_EQ(electorates.votes()[1].of, 4);
  EXPECT_FALSE(agree()) << "world 1 may go on with three of its four nodes";
  electorates.StopWaiting(OfWorldOne(1));
  EXPECT_FALSE(agree()) << "it was heard of";
  electorates.StartWaiting(OfWorldOne(1));
  electorates.StartWaiting(OfWorldOne(2));
  EXPECT_FALSE(agree()) << "half";
  electorates.StartWaiting(OfWorldOne(3));
  EXPECT_TRUE(agree());
  electorates.StartWaiting(VoterOf("n0", In(2, 0)));
  ASSERT_EQ(electorates.votes().size(), 2u) << "world 2 followed world 1, which has no say any more";
  EXPECT_FALSE(agree()) << "one of its four";
  electorates.Follow(3, "w3", 4);
  EXPECT_EQ(electorates.votes().size(), 3u) << "what follows keeps them until enough know of it";
  electorates.Clear();
  electorates.StartWaiting(OfWorldOne(1));
  EXPECT_TRUE(electorates.empty());
}

TEST(QuorumHistory, ANodeOfTheirOwnIsNoRival) {
  QuorumHistory electorates(/*holds_tie=*/false);
  electorates.Follow(0, "", 4);
  electorates.Follow(1, "w1", 4);
  electorates.StartWaiting(OfWorldOne(2));
  EXPECT_EQ(electorates.votes().size(), 2u);
  QuorumHistory later(/*holds_tie=*/false);
  later.Follow(1, "w1", 4);
  later.StartWaiting(VoterOf("x", In(2, 0)));
  EXPECT_EQ(later.votes().size(), 1u) << "nobody is counted by name";
  QuorumHistory first(/*holds_tie=*/false);
  first.Follow(0, "", 4);
  proto::MembershipRecord hostile = In(1, 0);
  hostile.set_nodes(-1);
  first.StartWaiting(VoterOf("x", hostile));
  EXPECT_EQ(first.votes().size(), 1u) << "no world has so many nodes";
}

TEST(QuorumHistory, TravelWithTheRecords) {
  QuorumHistory electorates(/*holds_tie=*/true);
  electorates.Follow(1, "w1", 4);
  proto::MembershipRecord record = In(2, 0);
  electorates.Tell(OfWorldOne(3), record.mutable_before());
  ASSERT_EQ(record.before_size(), 1);
  EXPECT_EQ(record.before(0).node_rank(), 3);
  QuorumHistory successor(/*holds_tie=*/false);
  ASSERT_TRUE(QuorumHistory::IsValid(record.before()));
  successor.Learn(record.before());
  const Voter voter = VoterOf("n3", record);
  EXPECT_FALSE(successor.Hear(voter));
  EXPECT_EQ(successor.votes()[0].knowing, 1);
}

TEST(QuorumHistory, RefuseWhatNoCoordinatorWrote) {
  proto::MembershipRecord record;
  record.add_before()->set_nodes(0);
  EXPECT_FALSE(QuorumHistory::IsValid(record.before()));
  record.mutable_before(0)->set_nodes(3);
  EXPECT_TRUE(QuorumHistory::IsValid(record.before()));
  record.mutable_before(0)->set_world(std::string(300, 'x'));
  EXPECT_FALSE(QuorumHistory::IsValid(record.before()));
  record.mutable_before(0)->clear_world();
  for (int i = 0; i < 9; ++i) record.add_before()->set_nodes(1);
  EXPECT_FALSE(QuorumHistory::IsValid(record.before()));
}

}  // namespace
}  // namespace composer
