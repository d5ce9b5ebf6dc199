// The whole rendezvous over real gRPC, nodes as threads.
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/client.h"
#include "rendezvous/grpc_settings.h"
#include "rendezvous/key_value_proxy.h"
#include "rendezvous/server.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
constexpr absl::Duration kLong = absl::Seconds(20);

std::unique_ptr<RendezvousServer> StartServer(int min_nodes, int max_nodes) {
  auto server = RendezvousServer::Start({.job = "job",
                                         .min_nodes = min_nodes,
                                         .max_nodes = max_nodes,
                                         .last_call = absl::Milliseconds(50),
                                         .clock = &RealClock::Get()});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

RendezvousClient::Options NodeOptions(const RendezvousServer& server, int rank) {
  RendezvousClient::Options options;
  options.address = absl::StrCat("127.0.0.1:", server.port());
  options.job = "job";
  options.incarnation = absl::StrCat("i", rank);
  options.node.set_node_id(absl::StrCat("n", rank));
  options.node.set_node_rank(rank);
  options.node.set_hostname(absl::StrCat("host", rank));
  options.node.set_slots(2);
  return options;
}

std::unique_ptr<RendezvousClient> Connect(RendezvousClient::Options options) {
  auto client = RendezvousClient::Connect(std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

// Joins of several nodes at once; their worlds in the order of the clients.
std::vector<proto::World> JoinAll(const std::vector<RendezvousClient*>& clients) {
  std::vector<proto::World> worlds(clients.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      auto world = clients[i]->Join(kLong);
      EXPECT_TRUE(world.ok()) << world.status();
      if (world.ok()) worlds[i] = *std::move(world);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return worlds;
}

proto::Caller CallerOf(uint64_t generation) {
  proto::Caller caller;
  caller.set_job("job");
  caller.set_generation(generation);
  caller.set_incarnation("worker");
  return caller;
}

absl::Status Get(proto::KeyValue::StubInterface& stub, uint64_t generation, const std::string& key, absl::Duration wait,
                 std::string* value) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(kLong));
  proto::GetRequest request;
  *request.mutable_caller() = CallerOf(generation);
  request.add_keys(key);
  request.set_wait_millis(absl::ToInt64Milliseconds(wait));
  proto::GetReply reply;
  const grpc::Status status = stub.Get(&context, request, &reply);
  if (status.ok() && value != nullptr) *value = reply.values(0);
  return FromGrpc(status);
}

absl::Status Set(proto::KeyValue::StubInterface& stub, const proto::Caller& caller, const std::string& key,
                 const std::string& value) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(kLong));
  proto::SetRequest request;
  *request.mutable_caller() = caller;
  proto::KeyAndValue& entry = *request.add_entries();
  entry.set_key(key);
  entry.set_value(value);
  proto::SetReply reply;
  return FromGrpc(stub.Set(&context, request, &reply));
}

TEST(Rendezvous, OneNode) {
  auto server = StartServer(1, 1);
  auto client = Connect(NodeOptions(*server, 0));
  const auto world = client->Join(kLong);
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->generation(), 1u);
  EXPECT_EQ(world->world_size(), 2);
  ASSERT_EQ(world->nodes_size(), 1);
  EXPECT_EQ(world->nodes(0).node().hostname(), "host0");
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
    EXPECT_EQ(world.SerializeAsString(), first[0].SerializeAsString());
    EXPECT_EQ(world.world_size(), 6);
    EXPECT_EQ(world.nodes(2).node().node_id(), "n2");
    EXPECT_EQ(world.nodes(2).base_rank(), 4);
  }
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
  EXPECT_EQ(second[0].nodes(0).node().node_id(), "n0");
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
  EXPECT_EQ(world->nodes_size(), 1);
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
  // The right one is still welcome, and the first one's Join goes on where it timed out.
  auto second = Connect(NodeOptions(*server, 1));
  EXPECT_EQ(JoinAll({first.get(), second.get()})[0].nodes_size(), 2);
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
  server.reset();  // the stream's end is no news: the generation was over already
  EXPECT_EQ(first->Join(kLong).status().code(), absl::StatusCode::kUnavailable);
  first.reset();
  EXPECT_EQ(calls[0], 1);
  EXPECT_EQ(calls[1], 0);
}

TEST(Rendezvous, PortInUseNamesAddressAndPort) {
  auto server = StartServer(1, 1);
  const auto second = RendezvousServer::Start({.job = "job", .port = server->port()});
  EXPECT_EQ(second.status(), absl::AlreadyExistsError(absl::StrCat("rendezvous: 127.0.0.1:", server->port(),
                                                                   " is in use by another process")));
}

TEST(Rendezvous, BadOptionsAreNamed) {
  EXPECT_EQ(RendezvousServer::Start({.job = "job", .min_nodes = 3, .max_nodes = 2}).status().message(),
            "rendezvous: nodes are 3:2, they must be min:max with 1 <= min <= max <= 1000000");
  EXPECT_EQ(RendezvousServer::Start({.job = "job", .port = 70000}).status().message(),
            "rendezvous: port is 70000, allowed are 0 (any) to 65535");
  EXPECT_THAT(std::string(RendezvousServer::Start({.job = "job", .bind_address = "192.0.2.1"}).status().message()),
              HasSubstr("rendezvous: cannot listen on 192.0.2.1:0: "));
}

TEST(Rendezvous, ConnectToNobodySaysWhere) {
  int port = StartServer(1, 1)->port();  // gone by now
  RendezvousClient::Options options;
  options.address = absl::StrCat("127.0.0.1:", port);
  options.connect_timeout = absl::Milliseconds(50);
  const auto client = RendezvousClient::Connect(options);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()),
              HasSubstr(absl::StrCat("no rendezvous answers at 127.0.0.1:", port, " within 50ms")));
}

TEST(Rendezvous, ClientWaitsForAServerThatIsNotUpYet) {
  const int port = StartServer(1, 1)->port();  // free again
  RendezvousClient::Options options;
  options.address = absl::StrCat("127.0.0.1:", port);
  absl::StatusOr<std::unique_ptr<RendezvousClient>> client = absl::UnknownError("");
  std::thread early([&] { client = RendezvousClient::Connect(options); });
  auto server = RendezvousServer::Start({.job = "job", .port = port});
  early.join();
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(client.ok()) << client.status();
}

// Passes one connection at a time on to `port`, each after a pause: a machine that is slow to shake hands.
class SlowRelay {
 public:
  SlowRelay(int port, absl::Duration pause) : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, port, pause] {
      for (int near; (near = accept(listener_, nullptr, nullptr)) >= 0; close(near)) {
        ++num_connections_;
        absl::SleepFor(pause);
        Relay(near, Loopback(port));
      }
    });
  }
  ~SlowRelay() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  int port() const { return port_; }
  int num_connections() const { return num_connections_; }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static void Relay(int near, sockaddr_in server) {
    const int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(far, reinterpret_cast<sockaddr*>(&server), sizeof server) == 0) {
      pollfd ends[2] = {{near, POLLIN, 0}, {far, POLLIN, 0}};
      while (poll(ends, 2, -1) > 0 && Copy(ends[0], far) && Copy(ends[1], near)) {
      }
    }
    close(far);
  }
  static bool Copy(const pollfd& from, int to) {
    if (from.revents == 0) return true;
    char data[4096];
    const ssize_t size = read(from.fd, data, sizeof data);
    return size > 0 && send(to, data, size, MSG_NOSIGNAL) == size;
  }

  const int listener_;
  int port_ = 0;
  std::atomic<int> num_connections_ = 0;
  std::thread thread_;
};

TEST(Rendezvous, SlowHandshakeOnABusyMachineIsNotAFailure) {
  auto server = StartServer(1, 1);
  SlowRelay relay(server->port(), absl::Milliseconds(300));
  RendezvousClient::Options options = NodeOptions(*server, 0);
  options.address = absl::StrCat("127.0.0.1:", relay.port());
  options.connect_timeout = absl::Seconds(4);
  auto client = RendezvousClient::Connect(options);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Join(kLong).ok());
  EXPECT_EQ(relay.num_connections(), 1) << "the first attempt was given up";
}

// The key-value service, reached directly and through a launcher's proxy.
class KeyValueRpcTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    server_ = StartServer(1, 1);
    client_ = Connect(NodeOptions(*server_, 0));
    ASSERT_TRUE(client_->Join(kLong).ok());
    std::shared_ptr<grpc::Channel> channel = client_->channel();
    if (GetParam()) {
      proxy_ = std::make_unique<KeyValueProxy>(channel);
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
  EXPECT_EQ(Set(*stub_, CallerOf(7), "k", "v"), absl::AbortedError("generation 7 is not the current one, that is 1"));
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
