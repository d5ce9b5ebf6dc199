// Tests membership over real gRPC, with nodes as threads.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "tests/rendezvous/cluster.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

TEST(Rendezvous, OneNode) {
  auto server = StartServer(1, 1);
  auto client = Connect(NodeOptions(*server, 0));
  const auto world = client->Join(kLong);
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->generation(), 1u);
  EXPECT_EQ(world->world_size(), 2);
  EXPECT_EQ(world->nodes(), 1);
  client->Leave("done");
}

TEST(Rendezvous, StartConnectJoinTakesMilliseconds) {
  absl::Duration best = absl::InfiniteDuration();
  for (int i = 0; i < 5; ++i) {
    const absl::Time start = absl::Now();
    auto server = StartServer(1, 1);
    auto client = Connect(NodeOptions(*server, 0));
    ASSERT_TRUE(client->Join(kLong).ok());
    best = std::min(best, absl::Now() - start);
    client->Leave("done");
  }
  std::printf("start, connect, join: %s\n", absl::FormatDuration(best).c_str());
  EXPECT_LT(best, absl::Milliseconds(100));
}

TEST(Rendezvous, ThreeNodesAgreeAndFormAgainAfterAFailure) {
  auto server = StartServer(3, 3);
  std::vector<std::unique_ptr<RendezvousClient>> clients;
  for (int rank : {2, 0, 1}) clients.push_back(Connect(NodeOptions(*server, rank)));
  absl::Notification told[3];
  std::string message[3];
  for (int i = 0; i < 3; ++i) {
    clients[i]->OnGenerationOver([&, i](const proto::GenerationOver& over) {
      message[i] = over.cause().message();
      told[i].Notify();
    });
  }
  const auto first = JoinAll({clients[0].get(), clients[1].get(), clients[2].get()});
  for (const proto::World& world : first) {
    EXPECT_EQ(world.id(), first[0].id());
    EXPECT_EQ(world.world_size(), 6);
  }
  EXPECT_EQ(first[0].node_rank(), 2) << "as given";
  EXPECT_EQ(first[0].base_rank(), 4);
  proto::FailureCause cause;
  cause.set_rank(3);
  cause.set_signal(9);
  cause.set_message("rank 3 was killed by signal 9");
  cause.set_stderr_tail("last \xFF line");  // not UTF-8: must not break the streams
  ASSERT_TRUE(clients[2]->ReportGenerationEnded(cause).ok());
  for (int i : {0, 1}) {
    ASSERT_TRUE(told[i].WaitForNotificationWithTimeout(kLong));
    EXPECT_EQ(message[i], "rank 3 was killed by signal 9");
  }
  const auto second = JoinAll({clients[0].get(), clients[1].get(), clients[2].get()});
  EXPECT_EQ(second[0].generation(), 2u);
  EXPECT_EQ(second[1].node_rank(), 0);
  EXPECT_FALSE(told[2].HasBeenNotified()) << "the reporter knows";
  for (auto& client : clients) client->Leave("done");
}

TEST(Rendezvous, LostNodeEndsTheGenerationAndTheSurvivorsGoOnAtOnce) {
  auto server = StartServer(2, 3);
  std::vector<std::unique_ptr<RendezvousClient>> clients;
  for (int rank = 0; rank < 3; ++rank) clients.push_back(Connect(NodeOptions(*server, rank)));
  absl::Notification told;
  proto::FailureCause cause;
  clients[0]->OnGenerationOver([&](const proto::GenerationOver& over) {
    cause = over.cause();
    told.Notify();
  });
  JoinAll({clients[0].get(), clients[1].get(), clients[2].get()});
  clients[1].reset();
  ASSERT_TRUE(told.WaitForNotificationWithTimeout(kLong));
  EXPECT_EQ(cause.node_id(), "n1");
  EXPECT_THAT(cause.message(), HasSubstr("node 1 (host1) was lost"));
  const auto worlds = JoinAll({clients[0].get(), clients[2].get()});
  EXPECT_EQ(worlds[0].generation(), 2u);
  EXPECT_EQ(worlds[0].world_size(), 4);
  EXPECT_EQ(worlds[0].reason(), "the 2 nodes left of generation 1 are back");
  for (int i : {0, 2}) clients[i]->Leave("done");
}

TEST(Rendezvous, LastCallFormsASmallerWorldByItself) {
  auto server = StartServer(1, 2);
  auto client = Connect(NodeOptions(*server, 0));
  const auto world = client->Join(kLong);
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->nodes(), 1);
  EXPECT_THAT(world->reason(), HasSubstr("the last call is over"));
}

TEST(Rendezvous, MismatchIsRefusedWithTheFieldThatDiffers) {
  auto server = StartServer(2, 2);
  auto first = Connect(NodeOptions(*server, 0));
  std::thread joiner(
      [&] { EXPECT_EQ(first->Join(absl::Seconds(1)).status().code(), absl::StatusCode::kDeadlineExceeded); });
  joiner.join();
  RendezvousClient::Options options = NodeOptions(*server, 1);
  options.node.set_config_hash("other");
  const auto world = Connect(options)->Join(kLong);
  EXPECT_EQ(world.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(world.status().message()),
              HasSubstr("config_hash is \"other\", but node \"host0\" has \"\""));
  options = NodeOptions(*server, 1);
  options.job = "another job";
  EXPECT_THAT(std::string(Connect(options)->Join(kLong).status().message()),
              HasSubstr("this rendezvous serves \"job\""));
  // The right one is still accepted, and the first one's Join continues where it timed out.
  auto second = Connect(NodeOptions(*server, 1));
  EXPECT_EQ(JoinAll({first.get(), second.get()})[0].nodes(), 2);
}

TEST(Rendezvous, EndOfTheServerIsTold) {
  auto server = StartServer(1, 1);
  auto client = Connect(NodeOptions(*server, 0));
  absl::Notification told;
  client->OnGenerationOver([&](const proto::GenerationOver& over) {
    EXPECT_EQ(over.generation(), 1u);
    EXPECT_EQ(over.cause().node_id(), "");
    EXPECT_THAT(over.cause().message(), HasSubstr("shutting down"));
    told.Notify();
  });
  ASSERT_TRUE(client->Join(kLong).ok());
  server.reset();
  ASSERT_TRUE(told.WaitForNotificationWithTimeout(kLong));
  EXPECT_EQ(client->Join(kLong).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client->ReportGenerationEnded({}).code(), absl::StatusCode::kUnavailable);
}

TEST(Rendezvous, AVerdictReachesANodeThatHasNotPickedItsWorldUp) {
  auto server = StartServer(2, 2);
  auto slow = Connect(NodeOptions(*server, 0)), quick = Connect(NodeOptions(*server, 1));
  absl::Notification told;
  slow->OnGenerationOver([&](const proto::GenerationOver& over) {
    EXPECT_EQ(over.generation(), 1u);
    EXPECT_EQ(over.cause().verdict().next(), proto::Verdict::GIVE_UP);
    told.Notify();
  });
  // Its request stays open at the server; the world comes while nobody waits for it.
  ASSERT_EQ(slow->Join(absl::Milliseconds(1)).status().code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(quick->Join(kLong).ok());
  proto::FailureCause cause;
  cause.set_message("rank 1 exited with 70");
  cause.mutable_verdict()->set_next(proto::Verdict::GIVE_UP);
  ASSERT_TRUE(quick->ReportGenerationEnded(cause).ok());
  EXPECT_TRUE(told.WaitForNotificationWithTimeout(kLong));
}

TEST(Rendezvous, HandlerRunsOnceForAGenerationAndNotFromTheDestructor) {
  auto server = StartServer(2, 2);
  auto first = Connect(NodeOptions(*server, 0)), second = Connect(NodeOptions(*server, 1));
  std::atomic<int> calls[2] = {0, 0};
  absl::Notification told;
  first->OnGenerationOver([&](const proto::GenerationOver&) {
    if (++calls[0] == 1) told.Notify();
  });
  second->OnGenerationOver([&](const proto::GenerationOver&) { ++calls[1]; });
  JoinAll({first.get(), second.get()});
  second.reset();  // while its world runs
  ASSERT_TRUE(told.WaitForNotificationWithTimeout(kLong));
  server.reset();  // the end of the stream adds nothing: the generation was already over
  EXPECT_EQ(first->Join(kLong).status().code(), absl::StatusCode::kUnavailable);
  first.reset();
  EXPECT_EQ(calls[0], 1);
  EXPECT_EQ(calls[1], 0);
}

}  // namespace
}  // namespace composer
