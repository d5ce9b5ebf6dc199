// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>

#include "rendezvous/key_value_proxy.h"
#include "tests/rendezvous/cluster.h"

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
      proxy_ = std::make_unique<KeyValueProxy>(std::make_shared<KeyValueUpstream>(channel));
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

INSTANTIATE_TEST_SUITE_P(Paths, KeyValueRpcTest, ::testing::Bool(),
                         [](const auto& path) { return path.param ? "Proxy" : "Direct"; });

}  // namespace
}  // namespace composer
