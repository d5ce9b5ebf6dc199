// Tests a launcher's link to rendezvous servers that disappear and return.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/rendezvous_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rendezvous/server.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
constexpr absl::Duration kLong = absl::Seconds(20);

std::unique_ptr<RendezvousServer> Serve(int port = 0, absl::Duration settle = absl::ZeroDuration()) {
  auto server = RendezvousServer::Start({.job = "job", .port = port, .settle = settle, .clock = &RealClock::Get()});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

class LinkTest : public testing::Test {
 protected:
  void Start(RendezvousPlaces places, const std::string& job = "job") {
    RendezvousClient::Options options;
    options.address = places.servers[0];
    options.job = job;
    options.incarnation = "i";
    options.node.set_node_id("n");
    options.node.set_hostname("host");
    options.node.set_slots(2);
    RendezvousLink::Handlers handlers = {.on_world =
                                             [this](absl::StatusOr<proto::World> world) {
                                               absl::MutexLock lock(&mutex_);
                                               worlds_.push_back(std::move(world));
                                             },
                                         .on_generation_over =
                                             [this](const proto::GenerationOver&) {
                                               absl::MutexLock lock(&mutex_);
                                               ++overs_;
                                             },
                                         .on_serve =
                                             [this] {
                                               absl::MutexLock lock(&mutex_);
                                               ++serves_;
                                             }};
    auto link = RendezvousLink::Start(options, std::move(handlers), {}, std::move(places));
    ASSERT_TRUE(link.ok()) << link.status();
    link_ = *std::move(link);
  }
  // Returns the n-th answer.
  absl::StatusOr<proto::World> World(size_t n) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&]() { return worlds_.size() >= n; };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&there), kLong)) return absl::DeadlineExceededError("no answer");
    return worlds_[n - 1];
  }
  bool IsAsked() {
    absl::MutexLock lock(&mutex_);
    const auto asked = [&]() { return serves_ > 0; };
    return mutex_.AwaitWithTimeout(absl::Condition(&asked), kLong);
  }
  absl::Status Call(const std::string& key, const std::string& value) {
    proto::SetRequest request;
    request.mutable_caller()->set_job("job");
    request.mutable_caller()->set_generation(1);
    request.add_entries()->set_key(key);
    request.mutable_entries(0)->set_value(value);
    proto::SetReply reply;
    grpc::ClientContext context;
    const grpc::Status status = link_->upstream()->stub()->Set(&context, request, &reply);
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  // Waits until the generation's calls work, which may take a while.
  bool CallsWork() {
    const absl::Time deadline = absl::Now() + kLong;
    while (!Call("k", "v").ok() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
    return Call("k", "v").ok();
  }

  absl::Mutex mutex_;
  std::vector<absl::StatusOr<proto::World>> worlds_;
  int overs_ = 0, serves_ = 0;
  std::unique_ptr<RendezvousLink> link_;
};

TEST_F(LinkTest, AServerThatIsStartedAgainLearnsTheGenerationAndNumbersTheNextOnItsOwn) {
  auto server = Serve();
  const int port = server->port();
  Start({.servers = {absl::StrCat("127.0.0.1:", port)}});
  link_->Join({});
  ASSERT_EQ(World(1)->generation(), 1u);
  ASSERT_TRUE(CallsWork());
  server.reset();
  server = Serve(port, /*settle=*/absl::Seconds(1));
  EXPECT_TRUE(CallsWork()) << "of generation 1, which runs";
  EXPECT_EQ(overs_, 0);
  link_->ReportEnded({});
  link_->Join({});
  EXPECT_GE(World(2)->generation(), 1'000'000u);
  link_->Leave("done");
}

TEST_F(LinkTest, TheNextOfTheListServesAndTheGenerationGoesOn) {
  auto first = Serve();
  const int second_port = Serve()->port();  // free again afterwards
  Start({.servers = {absl::StrCat("127.0.0.1:", first->port()), absl::StrCat("127.0.0.1:", second_port)}, .self = 1});
  link_->Join({});
  ASSERT_EQ(World(1)->generation(), 1u);
  first.reset();
  ASSERT_TRUE(IsAsked());
  auto second = Serve(second_port);
  EXPECT_TRUE(CallsWork());
  EXPECT_EQ(overs_, 0);
  link_->Leave("done");
}

// Whatever the reason, nothing is retried or reported a hundred times a second.
TEST_F(LinkTest, AServerThatAnswersAtOnceAndInVainIsAskedLessAndLessOften) {
  auto server = Serve();
  Start({.servers = {absl::StrCat("127.0.0.1:", server->port())}}, "not UTF-8: \xff");
  testing::internal::CaptureStderr();
  link_->Join({});
  absl::SleepFor(absl::Seconds(2));
  link_->Leave("done");
  const std::string said = testing::internal::GetCapturedStderr();
  const std::vector<std::string> parts = absl::StrSplit(said, "the rendezvous is away");
  EXPECT_GT(parts.size(), 2u) << said;
  EXPECT_LT(parts.size(), 15u) << "after 50, 100, 200, 400, 800 ms";
}

TEST_F(LinkTest, WithoutAListAndWithoutWorkersItGivesUpSoonAndSaysWhy) {
  auto server = Serve();
  Start({.servers = {absl::StrCat("127.0.0.1:", server->port())}});
  link_->Join({});
  ASSERT_TRUE(World(1).ok());
  server.reset();
  const absl::Time lost = absl::Now();
  link_->Join({});  // its workers have ended as well
  const auto answer = World(2);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("refuses connections"));
  EXPECT_GE(absl::Now() - lost, kLostHost);
  link_->Leave("done");
}

}  // namespace
}  // namespace composer
