// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership/membership.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

using Kind = MembershipDecision::Kind;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// There is no world yet, or all nodes of the last one are gone.
MemberRoster Newcomers(int waiting, double min_reached = 5) {
  return {.waiting = waiting, .min_reached = At(min_reached), .last_waiting = At(min_reached)};
}

// Generation 3 ended at 9 s. Of its `members`, `present` are connected and `back` of these wait, with `others` more.
MemberRoster After(int members, int present, int back, int others = 0) {
  return {.waiting = back + others,
          .min_reached = At(9),
          .last_generation = 3,
          .ended = At(9),
          .members = members,
          .present = present,
          .present_waiting = back,
          .last_waiting = At(9)};
}

// Generation 3 runs on `members` nodes; `waiting` others came, the last one at 40 s.
MemberRoster Running(int members, int waiting, int expected = 0) {
  return {.waiting = waiting,
          .last_generation = 3,
          .running = true,
          .members = members,
          .present = members - expected,
          .expected = expected,
          .expected_until = At(60),
          .last_waiting = At(40)};
}

MemberRoster Fresh(MemberRoster roster) {
  roster.settled = At(8);
  return roster;
}

MemberRoster Unseen(MemberRoster roster) {
  roster.broken = false;
  return roster;
}

MemberRoster Resizing(MemberRoster roster) {
  roster.resizing = true;
  return roster;
}

MemberRoster WithFirst(MemberRoster roster) {
  roster.first_present = roster.first_waiting = true;
  return roster;
}

MemberRoster Before(MemberRoster roster, const Votes& votes) {
  roster.before = {votes};
  return roster;
}

MemberRoster AllHere(MemberRoster roster) {
  roster.all_here = true;
  return roster;
}

MemberRoster Expecting(MemberRoster roster, int expected, double until) {
  roster.expected = expected;
  roster.expected_until = At(until);
  return roster;
}

const MembershipPolicy kElastic{2, 4, absl::Seconds(1)};
const MembershipPolicy kOne{1, 1, absl::Seconds(1)};

MembershipPolicy Grow(GrowPolicy grow) { return {2, 4, absl::Seconds(1), grow}; }
MembershipPolicy Quorum(bool holds_tie) {
  MembershipPolicy policy{1, 8, absl::Seconds(1)};
  policy.quorum = true;
  policy.holds_tie = holds_tie;
  return policy;
}

MembershipPolicy Least(int nodes, bool holds_tie) {
  MembershipPolicy policy = Quorum(holds_tie);
  policy.min_nodes = nodes;
  return policy;
}

struct Case {
  const char* name;
  MemberRoster roster;
  MembershipPolicy policy;
  double now;
  Kind kind;
  double until;  // only for kWait
  const char* reason;
};

void Check(const Case& c) {
  SCOPED_TRACE(c.name);
  const MembershipDecision decision = DecideMembership(c.roster, c.policy, At(c.now));
  EXPECT_EQ(decision.kind, c.kind);
  if (c.kind == Kind::kWait) EXPECT_EQ(decision.until, At(c.until));
  EXPECT_EQ(decision.reason, c.reason);
}

TEST(DecideMembership, FirstWorld) {
  const Case cases[] = {
      {"nobody", {}, kOne, 0, Kind::kNothing, 0, "0 nodes here, at least 1 needed"},
      {"one of one", Newcomers(1), kOne, 5, Kind::kForm, 0, "all 1 node are here"},
      {"too few", Newcomers(1), kElastic, 100, Kind::kNothing, 0, "1 node here, at least 2 needed"},
      {"last call", Newcomers(2), kElastic, 5, Kind::kWait, 6, "last call: 2 nodes of at most 4 are here"},
      {"a third does not prolong it", Newcomers(3), kElastic, 5.9, Kind::kWait, 6,
       "last call: 3 nodes of at most 4 are here"},
      {"last call over", Newcomers(3), kElastic, 6, Kind::kForm, 0,
       "3 nodes of at most 4 are here and the last call is over"},
      {"all four", Newcomers(4), kElastic, 5, Kind::kForm, 0, "all 4 nodes are here"},
      {"more than four", Newcomers(5), kElastic, 5, Kind::kForm, 0, "all 4 nodes are here"},
      {"a restarted rendezvous waits to be told", Fresh(Newcomers(4)), kElastic, 5, Kind::kWait, 8,
       "the rendezvous was just started: nodes of a running world may come back"},
      {"nobody told it of a world", Fresh(Newcomers(4)), kElastic, 8, Kind::kForm, 0, "all 4 nodes are here"},
  };
  for (const Case& c : cases) Check(c);
}

TEST(DecideMembership, NextWorld) {
  const Case cases[] = {
      {"all are back", After(3, 3, 3), kElastic, 9, Kind::kForm, 0, "the 3 nodes left of generation 3 are back"},
      {"too few are left", After(3, 1, 1), kElastic, 100, Kind::kNothing, 0, "1 node here, at least 2 needed"},
      {"one is still ending its workers", After(4, 3, 2), kElastic, 11, Kind::kWait, 24,
       "1 of the 3 nodes left of generation 3 not back yet"},
      {"it does not come", After(4, 3, 2), kElastic, 24, Kind::kForm, 0,
       "2 nodes of at most 4 are here and the last call is over"},
      {"spares are quicker: a moment for the survivor", After(4, 4, 3, 1), kElastic, 9.2, Kind::kWait, 10,
       "1 node left of generation 3 may be back in a moment"},
      {"the survivor is too slow", After(4, 4, 3, 1), kElastic, 10, Kind::kForm, 0, "all 4 nodes are here"},
      {"a spare fills a lost place at once", After(4, 3, 3, 1), kElastic, 9, Kind::kForm, 0, "all 4 nodes are here"},
      {"nobody is left: last call for the newcomers", After(3, 0, 0, 2), kElastic, 9.5, Kind::kWait, 10,
       "last call: 2 nodes of at most 4 are here"},
      {"all were lost at once: they may be on the other side of a cut", Unseen(After(3, 0, 0, 2)), kElastic, 20,
       Kind::kWait, 84, "the nodes of generation 3 were lost together: cut off from here, they may go on for a while"},
      {"their launchers noticed later, and end their workers", Unseen(After(3, 0, 0, 2)), kElastic, 83.9, Kind::kWait,
       84, "the nodes of generation 3 were lost together: cut off from here, they may go on for a while"},
      {"their launchers have given up", Unseen(After(3, 0, 0, 2)), kElastic, 84, Kind::kForm, 0,
       "2 nodes of at most 4 are here and the last call is over"},
      {"one has not been heard of since a restart", Expecting(After(3, 2, 2), 1, 12), kElastic, 9, Kind::kWait, 12,
       "1 of the 3 nodes left of generation 3 not back yet"},
      {"it is given up: all others are back", Expecting(After(3, 2, 2), 1, 12), kElastic, 12, Kind::kForm, 0,
       "the 2 nodes left of generation 3 are back"},
      {"a last call that is longer is not waited for",
       Expecting(After(3, 2, 2), 1, 12),
       {2, 4, absl::Seconds(60)},
       9,
       Kind::kWait,
       12,
       "1 of the 3 nodes left of generation 3 not back yet"},
      {"nor is it then",
       Expecting(After(3, 2, 2), 1, 12),
       {2, 4, absl::Seconds(60)},
       12,
       Kind::kForm,
       0,
       "the 2 nodes left of generation 3 are back"},
  };
  for (const Case& c : cases) Check(c);
}

TEST(DecideMembership, RunningWorld) {
  const Case cases[] = {
      {"nothing to do", Running(4, 0), kElastic, 50, Kind::kNothing, 0, "generation 3 is running"},
      {"full", Running(4, 2), kElastic, 50, Kind::kNothing, 0, "generation 3 is running, 2 nodes spare"},
      {"grows soon", Running(2, 1), kElastic, 41, Kind::kWait, 45, "generation 3 is running, 1 node will be added"},
      {"grows", Running(2, 3), kElastic, 45, Kind::kResize, 0, "the world grows from 2 to 4 of at most 4 nodes"},
      {"does not grow", Running(2, 1), Grow(GrowPolicy::kNever), 99, Kind::kNothing, 0,
       "generation 3 is running, 1 node wait for its end (grow is never)"},
      {"is growing", Resizing(Running(2, 1)), kElastic, 99, Kind::kNothing, 0,
       "generation 3 is ending, so that the world can grow"},
      {"recovering", Running(4, 0, 3), kElastic, 59, Kind::kWait, 60,
       "generation 3 is running, 3 of its 4 nodes not back at the rendezvous yet"},
      {"not recovered", Running(4, 0, 1), kElastic, 60, Kind::kEnd, 0,
       "1 of the 4 nodes of generation 3 did not come back to the rendezvous in time"},
  };
  for (const Case& c : cases) Check(c);
}

TEST(DecideMembership, QuorumOfTheLastWorld) {
  const Case cases[] = {
      {"majority", After(5, 3, 3), Quorum(false), 9, Kind::kForm, 0, "the 3 nodes left of generation 3 are back"},
      {"half, with node rank 0", WithFirst(After(4, 2, 2)), Quorum(false), 9, Kind::kForm, 0,
       "the 2 nodes left of generation 3 are back"},
      {"all were started anew but one", AllHere(After(3, 1, 1, 7)), Quorum(false), 9, Kind::kForm, 0,
       "all 8 nodes are here"},
      {"half", After(4, 2, 2), Quorum(true), 9, Kind::kWait, 19,
       "2 of the 4 nodes of generation 3 are here, more than half are needed"},
      {"all were lost at once", Unseen(After(4, 0, 0, 6)), Quorum(true), 68.9, Kind::kWait, 69,
       "the nodes of generation 3 were lost together: cut off from here, they may go on for a while"},
      {"the quorum decides then", Unseen(After(4, 0, 0, 6)), Quorum(true), 69, Kind::kDissolve, 0,
       "0 of the 4 nodes of generation 3 are here, more than half are needed"},
      {"newcomers do not count", After(4, 1, 1, 6), Quorum(true), 9, Kind::kWait, 19,
       "1 of the 4 nodes of generation 3 are here, more than half are needed"},
      {"nobody else came", After(4, 1, 1), Quorum(true), 19, Kind::kDissolve, 0,
       "1 of the 4 nodes of generation 3 are here, more than half are needed"},
      {"a majority, that still ends its workers", After(5, 3, 1, 7), Quorum(true), 30, Kind::kNothing, 0,
       "1 of the 5 nodes of generation 3 have ended their workers, more than half are needed"},
      {"the world before has not heard of it", Before(After(5, 3, 3), {.of = 7, .waiting = 3, .knowing = 3}),
       Quorum(true), 9, Kind::kWait, 19,
       "3 of the 5 nodes of generation 3 are here, more than half are needed, also of the worlds before it"},
      {"it has", Before(After(5, 3, 3), {.of = 7, .waiting = 3, .knowing = 4}), Quorum(true), 9, Kind::kForm, 0,
       "the 3 nodes left of generation 3 are back"},
      {"it has not, but its majority is here as well", Before(After(5, 3, 3), {.of = 5, .waiting = 3}), Quorum(true), 9,
       Kind::kForm, 0, "the 3 nodes left of generation 3 are back"},
      {"too few for a world: an earlier host may have more", After(5, 3, 3), Least(4, false), 19, Kind::kDissolve, 0,
       "3 nodes here, at least 4 needed"},
      {"too few for a world, at the first host", After(5, 3, 3), Least(4, true), 99, Kind::kNothing, 0,
       "3 nodes here, at least 4 needed"},
      {"a first world needs more than half of all", Newcomers(4), Quorum(false), 5, Kind::kWait, 15,
       "4 of at most 8 nodes are here, more than half are needed"},
      {"half, at the first host", Newcomers(4), Quorum(true), 6, Kind::kForm, 0,
       "4 nodes of at most 8 are here and the last call is over"},
      {"one coordinator only: no quorum needed", After(4, 2, 2), kElastic, 9, Kind::kForm, 0,
       "the 2 nodes left of generation 3 are back"},
  };
  for (const Case& c : cases) Check(c);
}

TEST(ParseGrowPolicy, Names) {
  GrowPolicy policy = GrowPolicy::kNow;
  EXPECT_TRUE(ParseGrowPolicy("checkpoint", &policy));
  EXPECT_EQ(policy, GrowPolicy::kAtCheckpoint);
  EXPECT_TRUE(ParseGrowPolicy("never", &policy));
  EXPECT_EQ(policy, GrowPolicy::kNever);
  EXPECT_FALSE(ParseGrowPolicy("Now", &policy));
}

}  // namespace
}  // namespace composer
