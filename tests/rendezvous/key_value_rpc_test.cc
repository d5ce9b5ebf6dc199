// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>

#include <algorithm>
#include <set>
#include <thread>

#include "rendezvous/store/key_value_proxy.h"
#include "tests/rendezvous/cluster.h"
#include "tests/support/processes.h"

namespace composer {
namespace {

// The key-value service, reached directly and through a launcher's proxy.
class KeyValueRpcTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    server_ = StartServer(1, 1);
    client_ = Connect(NodeOptions(*server_, 0));
    ASSERT_TRUE(client_->Join(kLong).ok());
    std::shared_ptr<grpc::Channel> channel = client_->channel();
    if (GetParam()) {
      proxy_ = std::make_unique<KeyValueProxy>(std::make_shared<KeyValueUpstream>("launcher", channel));
      grpc::ServerBuilder builder;
      ApplyServerSettings(builder);
      int port = 0;
      builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
      builder.RegisterService(proxy_.get());
      proxy_server_ = builder.BuildAndStart();
      channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(),
                                          ChannelSettings());
    }
    stub_ = proto::KeyValue::NewStub(channel);
  }

  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<RendezvousClient> client_;
  std::unique_ptr<KeyValueProxy> proxy_;
  std::unique_ptr<grpc::Server> proxy_server_;
  std::unique_ptr<proto::KeyValue::Stub> stub_;
};

TEST_P(KeyValueRpcTest, WaitingGetIsAnsweredBySet) {
  std::string value;
  std::thread waiter([&] { EXPECT_TRUE(Get(*stub_, 1, "k", kLong, &value).ok()); });
  EXPECT_TRUE(Set(*stub_, CallerOf(1), "k", std::string("\0v", 2)).ok());
  waiter.join();
  EXPECT_EQ(value, std::string("\0v", 2));
}

TEST_P(KeyValueRpcTest, DeadlineIsAnAnswer) {
  const absl::Status status = Get(*stub_, 1, "never", absl::Milliseconds(20), nullptr);
  EXPECT_EQ(status, absl::DeadlineExceededError("get: waited 20ms, key \"never\" is not there"));
  EXPECT_EQ(Get(*stub_, 1, "never", absl::ZeroDuration(), nullptr).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_P(KeyValueRpcTest, StaleGenerationAndForeignJobAreAborted) {
  EXPECT_EQ(Set(*stub_, CallerOf(0), "k", "v"), absl::AbortedError("generation 0 is not the current one, that is 1"));
  proto::Caller stranger = CallerOf(1);
  stranger.set_job("other");
  EXPECT_EQ(Set(*stub_, stranger, "k", "v").code(), absl::StatusCode::kAborted);
}

TEST_P(KeyValueRpcTest, EndOfTheGenerationAbortsTheWaiter) {
  absl::Status status;
  std::thread waiter([&] { status = Get(*stub_, 1, "never", kLong, nullptr); });
  proto::FailureCause cause;
  cause.set_message("rank 1: exit code 3");
  EXPECT_TRUE(client_->ReportGenerationEnded(cause).ok());
  waiter.join();
  EXPECT_EQ(status, absl::AbortedError("generation 1 is over: rank 1: exit code 3"));
}

TEST_P(KeyValueRpcTest, CallerThatGoesAwayDoesNotHoldAWaiter) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(absl::Milliseconds(30)));
  proto::GetRequest request;
  *request.mutable_caller() = CallerOf(1);
  request.add_keys("never");
  request.set_wait_millis(-1);
  proto::GetReply reply;
  EXPECT_EQ(stub_->Get(&context, request, &reply).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Set(*stub_, CallerOf(1), "never", "v").ok());
}

TEST_P(KeyValueRpcTest, CountersAndTheRest) {
  const proto::Caller caller = CallerOf(1);
  const auto call = [&](auto method, auto request, auto reply) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(kLong));
    *request.mutable_caller() = caller;
    EXPECT_TRUE((stub_.get()->*method)(&context, request, &reply).ok());
    return reply;
  };
  using Stub = proto::KeyValue::Stub;
  proto::AddRequest add;
  add.set_key("n");
  add.set_amount(3);
  EXPECT_EQ(call(&Stub::Add, add, proto::AddReply()).value(), 3);
  EXPECT_EQ(call(&Stub::Add, add, proto::AddReply()).value(), 6);
  proto::CompareSetRequest compare;
  compare.set_key("c");
  compare.set_desired("d");
  EXPECT_EQ(call(&Stub::CompareSet, compare, proto::CompareSetReply()).value(), "d");
  proto::CheckRequest check;
  check.add_keys("n");
  check.add_keys("c");
  EXPECT_TRUE(call(&Stub::Check, check, proto::CheckReply()).all_present());
  EXPECT_EQ(call(&Stub::Count, proto::CountRequest(), proto::CountReply()).count(), 2);
  proto::DeleteRequest erase;
  erase.set_key("c");
  EXPECT_TRUE(call(&Stub::Delete, erase, proto::DeleteReply()).deleted());
  EXPECT_FALSE(call(&Stub::Check, check, proto::CheckReply()).all_present());
}

// A launcher between the workers and the rendezvous.
class ProxyTest : public KeyValueRpcTest {
 protected:
  void SetUp() override {
    KeyValueRpcTest::SetUp();
    upstream_ = std::make_shared<KeyValueUpstream>("launcher", client_->channel());
    proxy_ = std::make_unique<KeyValueProxy>(upstream_);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(proxy_.get());
    proxy_server_ = builder.BuildAndStart();
    stub_ = proto::KeyValue::NewStub(grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                                               grpc::InsecureChannelCredentials(), ChannelSettings()));
  }
  proto::GetReply GetOnce(const std::vector<std::string>& keys) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(kLong));
    proto::GetRequest request;
    *request.mutable_caller() = CallerOf(1);
    request.mutable_keys()->Assign(keys.begin(), keys.end());
    request.set_wait_millis(-1);
    request.set_write_once(true);
    proto::GetReply reply;
    const grpc::Status status = stub_->Get(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }

  std::shared_ptr<KeyValueUpstream> upstream_;
};

TEST_P(ProxyTest, AMeshReadsEachKeyOnceANode) {
  constexpr int kRanks = 16, kLocalRanks = 4;
  std::vector<std::thread> ranks;
  for (int local = 0; local < kLocalRanks; ++local) {
    ranks.emplace_back([&] {  // before the keys exist, key by key, like Gloo
      for (int peer = 0; peer < kRanks; ++peer) {
        const proto::GetReply reply = GetOnce({absl::StrCat("address/", peer)});
        ASSERT_EQ(reply.values_size(), 1);
        EXPECT_EQ(reply.values(0), absl::StrCat("10.0.0.", peer));
      }
    });
  }
  for (int peer = 0; peer < kRanks; ++peer)
    ASSERT_TRUE(Set(*stub_, CallerOf(1), absl::StrCat("address/", peer), absl::StrCat("10.0.0.", peer)).ok());
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(upstream_->num_reads(), kRanks) << "not one a rank";
}

// Regression test for L7: each of 1,500 saves added its keys to the launcher's memory.
TEST(KeyValueUpstream, KeysThatComeAndGoTakeNoMoreAndMoreMemory) {
  KeyValueUpstream upstream("a launcher", grpc::CreateChannel("unix:/nowhere", grpc::InsecureChannelCredentials()));
  uint64_t revision = 0;
  const auto change = [&](const std::string& key, bool deleted) {
    proto::KeyMemory memory;
    memory.set_key(key);
    memory.set_revision(++revision);
    memory.set_deleted(deleted);
    upstream.Remember(1, memory);
  };
  change("lasting", false);
  for (int save = 0; save < 1500; ++save) {
    for (int key = 0; key < 5; ++key) change(absl::StrCat(save, "/", key), false);
    for (int key = 0; key < 5; ++key) change(absl::StrCat(save, "/", key), true);
  }
  EXPECT_EQ(upstream.Memories(1).size(), 1001u);
}

proto::KeyMemory MemoryOf(const std::string& key, uint64_t revision, size_t bytes) {
  proto::KeyMemory memory;
  memory.set_key(key);
  memory.set_value(std::string(bytes, 'v'));
  memory.set_revision(revision);
  return memory;
}

TEST(KeyValueUpstream, KeysThatTheStoreLacksAreForgottenUnlessTheyWereSetAgainSince) {
  constexpr size_t kPart = KeyValueUpstream::kMinCheckedBytes / 4;
  KeyValueUpstream upstream("a launcher", grpc::CreateChannel("unix:/nowhere", grpc::InsecureChannelCredentials()));
  for (uint64_t i = 1; i <= 3; ++i) upstream.Remember(1, MemoryOf(absl::StrCat(i), i, kPart));
  EXPECT_TRUE(upstream.TakeKeysToCheck(1).empty()) << "not enough yet";
  upstream.Remember(1, MemoryOf("4", 4, kPart));
  EXPECT_TRUE(upstream.TakeKeysToCheck(0).empty()) << "another generation";
  EXPECT_EQ(upstream.TakeKeysToCheck(1).size(), 4u);
  upstream.Remember(1, MemoryOf("5", 6, kPart));
  EXPECT_TRUE(upstream.TakeKeysToCheck(1).empty()) << "asked for already";
  upstream.Remember(1, MemoryOf("2", 7, kPart));
  upstream.Forget(1, {"1", "2", "3", "none"}, 6);
  std::set<std::string> left;
  for (const proto::KeyMemory& memory : upstream.Memories(1)) left.insert(memory.key());
  EXPECT_EQ(left, (std::set<std::string>{"2", "4", "5"})) << "2 was set again after the store's answer";

  EXPECT_TRUE(upstream.TakeKeysToCheck(1).empty()) << "these are there, as was said just now";
  for (const char* key : {"6", "7", "8"}) upstream.Remember(1, MemoryOf(key, 8, kPart));
  EXPECT_TRUE(upstream.TakeKeysToCheck(1).empty()) << "twice as many";
  upstream.Remember(1, MemoryOf("9", 9, kPart));
  EXPECT_EQ(upstream.TakeKeysToCheck(1).size(), 7u);
  for (uint64_t i = 1; i <= 4; ++i) upstream.Remember(2, MemoryOf(absl::StrCat(i), i, kPart));
  upstream.Forget(1, {"1", "2", "3", "4"}, 100);
  EXPECT_EQ(upstream.TakeKeysToCheck(2).size(), 4u) << "a generation of its own";
}

// Node 1's ranks set the parts of each checkpoint, and rank 0 on node 0 deletes them when it has read them.
TEST_P(ProxyTest, KeysThatAnotherLauncherDeletesAreForgotten) {
  constexpr size_t kSaves = 2000, kBytes = 1000, kMost = kSaves / 2;
  const auto other = proto::KeyValue::NewStub(client_->channel());
  ASSERT_TRUE(Set(*stub_, CallerOf(1), "lasting", "x").ok());
  const auto remembered = [&] { return upstream_->Memories(1).size(); };
  for (size_t save = 0; save < kSaves; ++save) {
    const std::string key = absl::StrCat("gather/", save, "/1");
    ASSERT_TRUE(Set(*stub_, CallerOf(1), key, std::string(kBytes, 'v')).ok());
    grpc::ClientContext context;
    proto::DeleteRequest request;
    *request.mutable_caller() = CallerOf(1);
    request.set_key(key);
    proto::DeleteReply reply;
    ASSERT_TRUE(other->Delete(&context, request, &reply).ok());
    // The question is under way beside the next sets.
    const absl::Time deadline = absl::Now() + kLong;
    while (remembered() > kMost && absl::Now() < deadline) std::this_thread::yield();
    ASSERT_LE(remembered(), kMost) << "after " << save;
  }
  const std::vector<proto::KeyMemory> memories = upstream_->Memories(1);
  EXPECT_TRUE(std::any_of(memories.begin(), memories.end(), [](const auto& m) { return m.key() == "lasting"; }));
}

TEST_P(ProxyTest, RemembersTheNewestChangesForARestartedRendezvous) {
  ASSERT_TRUE(Set(*stub_, CallerOf(1), "k", "old").ok());
  ASSERT_TRUE(Set(*stub_, CallerOf(1), "k", "new").ok());
  const std::vector<proto::KeyMemory> memories = upstream_->Memories(1);
  ASSERT_EQ(memories.size(), 1u);
  EXPECT_EQ(memories[0].value(), "new");
  EXPECT_EQ(memories[0].revision(), 2u);
  EXPECT_TRUE(upstream_->Memories(2).empty());
}

TEST_P(ProxyTest, CallsWaitWhileTheRendezvousIsAwayAndFindTheKeysAgain) {
  ASSERT_TRUE(Set(*stub_, CallerOf(1), "before", "kept").ok());
  const proto::MembershipRecord record = client_->record();
  server_.reset();
  std::string value;
  std::thread reader([&] { EXPECT_TRUE(Get(*stub_, 1, "before", kLong, &value).ok()); });
  EXPECT_TRUE(WaitUntil([&] { return upstream_->num_reads() == 1; }, kLong)) << "the call is under way";
  server_ = StartServer(1, 1);
  RendezvousClient::Options options = NodeOptions(*server_, 0);
  options.record = record;
  auto again = Connect(options);
  upstream_->SetChannel(again->channel());
  EXPECT_TRUE(again->Reattach(upstream_->Memories(1), kLong).ok());
  reader.join();
  EXPECT_EQ(value, "kept");
  EXPECT_TRUE(Set(*stub_, CallerOf(1), "after", "x").ok()) << "the generation's calls work again";
  client_ = std::move(again);
}

INSTANTIATE_TEST_SUITE_P(Launcher, ProxyTest, ::testing::Values(true), [](const auto&) { return "Proxy"; });

INSTANTIATE_TEST_SUITE_P(Paths, KeyValueRpcTest, ::testing::Bool(),
                         [](const auto& path) { return path.param ? "Proxy" : "Direct"; });

}  // namespace
}  // namespace composer
