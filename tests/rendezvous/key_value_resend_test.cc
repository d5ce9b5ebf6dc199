// Answers are lost between a launcher and the rendezvous: the launcher sends the call again, and each change is made
// once.
// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>

#include <atomic>

#include "rendezvous/store/key_value_proxy.h"
#include "tests/rendezvous/cluster.h"

namespace composer {
namespace {

// Forwards every call, and loses the answer of every other one.
class LossyNetwork final : public proto::KeyValue::Service {
 public:
  explicit LossyNetwork(const std::shared_ptr<grpc::Channel>& channel) : stub_(proto::KeyValue::NewStub(channel)) {}

  grpc::Status Set(grpc::ServerContext*, const proto::SetRequest* request, proto::SetReply* reply) override {
    return Pass(&proto::KeyValue::Stub::Set, *request, reply);
  }
  grpc::Status Get(grpc::ServerContext*, const proto::GetRequest* request, proto::GetReply* reply) override {
    return Pass(&proto::KeyValue::Stub::Get, *request, reply);
  }
  grpc::Status Add(grpc::ServerContext*, const proto::AddRequest* request, proto::AddReply* reply) override {
    return Pass(&proto::KeyValue::Stub::Add, *request, reply);
  }
  grpc::Status CompareSet(grpc::ServerContext*, const proto::CompareSetRequest* request,
                          proto::CompareSetReply* reply) override {
    return Pass(&proto::KeyValue::Stub::CompareSet, *request, reply);
  }
  grpc::Status Delete(grpc::ServerContext*, const proto::DeleteRequest* request, proto::DeleteReply* reply) override {
    return Pass(&proto::KeyValue::Stub::Delete, *request, reply);
  }
  int num_lost() const { return num_lost_; }

 private:
  template <typename Request, typename Reply>
  grpc::Status Pass(grpc::Status (proto::KeyValue::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply* reply) {
    grpc::ClientContext context;
    const grpc::Status status = (stub_.get()->*method)(&context, request, reply);
    if (!lose_.exchange(!lose_)) return status;
    ++num_lost_;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the answer is lost");
  }

  const std::unique_ptr<proto::KeyValue::Stub> stub_;
  std::atomic<bool> lose_ = true;
  std::atomic<int> num_lost_ = 0;
};

struct Served {
  std::unique_ptr<grpc::Server> server;
  std::shared_ptr<grpc::Channel> channel;
};

Served Serve(grpc::Service& service) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  Served served = {builder.BuildAndStart(), nullptr};
  served.channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(),
                                             ChannelSettings());
  return served;
}

class ResendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(client_->Join(kLong).ok());
    network_ = std::make_unique<LossyNetwork>(client_->channel());
    between_ = Serve(*network_);
    upstream_ = std::make_shared<KeyValueUpstream>("launcher", between_.channel);
    proxy_ = std::make_unique<KeyValueProxy>(upstream_);
    launcher_ = Serve(*proxy_);
    worker_ = proto::KeyValue::NewStub(launcher_.channel);
    direct_ = proto::KeyValue::NewStub(client_->channel());
  }
  template <typename Request, typename Reply>
  Reply Call(grpc::Status (proto::KeyValue::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
             Request request) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(kLong));
    *request.mutable_caller() = CallerOf(1);
    Reply reply;
    const grpc::Status status = (worker_.get()->*method)(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }
  proto::AddReply Add(int64_t amount) {
    proto::AddRequest add;
    add.set_key("n");
    add.set_amount(amount);
    return Call(&proto::KeyValue::Stub::Add, add);
  }
  std::string Value(const std::string& key) {
    std::string value;
    EXPECT_TRUE(Get(*direct_, 1, key, kLong, &value).ok());
    return value;
  }

  std::unique_ptr<RendezvousServer> server_ = StartServer(1, 1);
  std::unique_ptr<RendezvousClient> client_ = Connect(NodeOptions(*server_, 0));
  std::unique_ptr<LossyNetwork> network_;
  Served between_;
  std::shared_ptr<KeyValueUpstream> upstream_;
  std::unique_ptr<KeyValueProxy> proxy_;
  Served launcher_;
  std::unique_ptr<proto::KeyValue::Stub> worker_, direct_;
};

TEST_F(ResendTest, EveryChangeIsMadeOnceThoughItsAnswerIsLost) {
  EXPECT_EQ(Add(3).value(), 3);
  EXPECT_EQ(Add(4).value(), 7);
  EXPECT_EQ(Value("n"), "7");
  proto::CompareSetRequest compare;
  compare.set_key("lock");
  compare.set_desired("mine");
  const auto locked = Call(&proto::KeyValue::Stub::CompareSet, compare);
  EXPECT_EQ(locked.value(), "mine");
  EXPECT_GT(locked.revision(), 0u) << "it was set by this call";
  proto::DeleteRequest erase;
  erase.set_key("lock");
  EXPECT_TRUE(Call(&proto::KeyValue::Stub::Delete, erase).deleted()) << "the key was there";
  proto::SetRequest set;
  set.add_entries()->set_key("k");
  const uint64_t revision = Call(&proto::KeyValue::Stub::Set, set).revision();
  EXPECT_EQ(revision, 5u) << "five changes";
  EXPECT_EQ(network_->num_lost(), 5);
}

TEST_F(ResendTest, ChangesOfManyThreadsAreCountedOnce) {
  constexpr int kThreads = 8, kEach = 5;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) Add(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Value("n"), absl::StrCat(kThreads * kEach));
}

}  // namespace
}  // namespace composer
