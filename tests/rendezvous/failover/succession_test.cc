// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/failover/succession.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using ::testing::HasSubstr;
using Kind = SuccessionDecision::Kind;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

constexpr double kRuns = -1;  // this node's workers are running

struct Case {
  const char* name;
  std::vector<ServerState> servers;
  int self;
  bool hosted;
  double broken;  // when this node's workers ended, or kRuns
  double now;     // the server was lost at 100
  Kind kind;
  int server;
  int lives = -1;  // the rank whose host's launcher is reachable
};

void Check(const Case& c) {
  SCOPED_TRACE(c.name);
  SuccessionView view{.servers = c.servers, .self = c.self, .hosted = c.hosted, .away_since = At(100)};
  view.lives = c.lives;
  view.blip = absl::Seconds(10);
  view.broken_since = c.broken == kRuns ? absl::InfiniteFuture() : At(c.broken);
  const SuccessionDecision decision = DecideSuccession(view, {"a:1", "b:1", "c:1"}, At(c.now));
  EXPECT_EQ(decision.kind, c.kind) << decision.reason;
  if (c.kind == Kind::kAttach || c.kind == Kind::kServe) EXPECT_EQ(decision.server, c.server);
}

TEST(DecideSuccession, OneHost) {
  const Case cases[] = {
      {"back", {ServerState::kServing}, -1, true, kRuns, 130, Kind::kAttach, 0},
      {"process gone, workers run", {ServerState::kRefused}, -1, true, kRuns, 159, Kind::kWait, -1},
      {"grace over", {ServerState::kRefused}, -1, true, kRuns, 160, Kind::kGiveUp, -1},
      {"process gone, workers ended before", {ServerState::kRefused}, -1, true, 50, 103.9, Kind::kWait, -1},
      {"launcher gone as well", {ServerState::kRefused}, -1, true, 50, 104, Kind::kGiveUp, -1},
      {"workers ended later", {ServerState::kRefused}, -1, true, 120, 123.9, Kind::kWait, -1},
      {"and it is not back", {ServerState::kRefused}, -1, true, 120, 124, Kind::kGiveUp, -1},
      {"silent", {ServerState::kSilent}, -1, true, kRuns, 101.1, Kind::kWait, -1},
      {"host lost", {ServerState::kSilent}, -1, true, kRuns, 101.2, Kind::kGiveUp, -1},
      {"frozen", {ServerState::kUnresponsive}, -1, true, kRuns, 103.9, Kind::kWait, -1},
      {"and does not thaw", {ServerState::kUnresponsive}, -1, true, kRuns, 104, Kind::kGiveUp, -1},
      {"on its own, silent", {ServerState::kSilent}, -1, false, kRuns, 159, Kind::kWait, -1},
      {"on its own, gone", {ServerState::kRefused}, -1, false, 50, 159, Kind::kWait, -1},
      {"on its own, grace over", {ServerState::kRefused}, -1, false, kRuns, 160, Kind::kGiveUp, -1},
  };
  for (const Case& c : cases) Check(c);
}

TEST(DecideSuccession, CutOffFromAServerWhoseHostLives) {
  const auto R = ServerState::kRefused, S = ServerState::kServing, Q = ServerState::kSilent,
             M = ServerState::kUnresponsive;
  const Case cases[] = {
      {"waits", {Q}, -1, true, kRuns, 109.9, Kind::kWait, -1, 0},
      {"not for ever", {Q}, -1, true, kRuns, 110, Kind::kGiveUp, -1, 0},
      {"its workers are done", {Q}, -1, true, 90, 109.9, Kind::kWait, -1, 0},
      {"its process is gone", {R}, -1, true, 50, 104, Kind::kGiveUp, -1, 0},
      {"its process is frozen", {M}, -1, true, kRuns, 104, Kind::kGiveUp, -1, 0},
      {"does not take over", {Q, R, R}, 1, true, kRuns, 109.9, Kind::kWait, -1, 0},
      {"takes over then", {Q, R, R}, 1, true, kRuns, 110, Kind::kServe, 1, 0},
      {"another serves, without the rest of the world", {Q, S, R}, 2, true, kRuns, 105, Kind::kWait, -1, 0},
      {"sends away, without the rest of the world",
       {Q, R, ServerState::kBackoff},
       1,
       true,
       kRuns,
       105,
       Kind::kWait,
       -1,
       0},
      {"another has taken over", {Q, S, R}, 2, true, kRuns, 110, Kind::kAttach, 1, 0},
      {"another serves, and nothing here could end", {Q, S, R}, 2, true, 50, 105, Kind::kAttach, 1, 0},
      {"another one's host lives", {Q, Q, R}, 2, true, kRuns, 108, Kind::kWait, -1, 1},
  };
  for (const Case& c : cases) Check(c);
}

TEST(DecideSuccession, List) {
  const auto R = ServerState::kRefused, S = ServerState::kServing, Q = ServerState::kSilent, X = ServerState::kBackoff;
  const Case cases[] = {
      {"the first serves again at once", {R, R, R}, 0, true, kRuns, 100, Kind::kServe, 0},
      {"the second gives it time", {Q, R, R}, 1, true, kRuns, 103.9, Kind::kWait, -1},
      {"then serves", {Q, R, R}, 1, true, kRuns, 104, Kind::kServe, 1},
      {"the third waits for the second", {Q, R, R}, 2, true, kRuns, 104, Kind::kWait, -1},
      {"and finds it", {Q, S, R}, 2, true, kRuns, 105, Kind::kAttach, 1},
      {"or serves itself", {Q, Q, R}, 2, true, kRuns, 108, Kind::kServe, 2},
      {"the earlier one of two", {S, S, R}, 2, true, kRuns, 105, Kind::kAttach, 0},
      {"not the one that sent it away", {X, S, R}, 0, true, kRuns, 105, Kind::kAttach, 1},
      {"a server without quorum is better than none", {R, X, R}, 0, true, kRuns, 105, Kind::kAttach, 1},
      {"not on the list", {Q, Q, Q}, -1, true, kRuns, 171, Kind::kWait, -1},
      {"nobody came", {Q, Q, Q}, -1, true, kRuns, 172, Kind::kGiveUp, -1},
  };
  for (const Case& c : cases) Check(c);
}

TEST(DecideSuccession, GivingUpSaysWhatWasTried) {
  const SuccessionDecision decision =
      DecideSuccession({.servers = {ServerState::kSilent}, .away_since = At(100), .broken_since = At(100)},
                       {"10.0.0.1:7501"}, At(104.23));
  EXPECT_EQ(decision.reason,
            "the rendezvous was lost 4.2s ago: 10.0.0.1:7501 does not answer: its host is lost or cut off");
}

TEST(QuorumWaitOf, TheFirstWaitsLongest) {
  EXPECT_GT(QuorumWaitOf(0, 3), QuorumWaitOf(1, 3));
  EXPECT_GT(QuorumWaitOf(1, 3), QuorumWaitOf(2, 3));
  EXPECT_EQ(QuorumWaitOf(-1, 0), QuorumWaitOf(0, 1));
}

}  // namespace
}  // namespace composer
