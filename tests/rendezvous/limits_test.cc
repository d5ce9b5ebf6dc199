// Tests what a peer cannot do to the rendezvous: huge messages, unlimited keys, unlimited connections, other users.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/client.h"
#include "rendezvous/server.h"
#include "rendezvous/store/key_value_service.h"
#include "rendezvous/transport/grpc_settings.h"
#include "rendezvous/transport/listener.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

// A plain TCP connection that can report whether the server has closed it.
class RawConnection {
 public:
  explicit RawConnection(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~RawConnection() { close(fd_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool IsClosed() const {
    char bytes[256];
    const ssize_t count = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }

 private:
  const int fd_;
};

class KeyValueFixture {
 public:
  explicit KeyValueFixture(const KeyValueStore::Limits& limits)
      : store_(std::make_shared<KeyValueStore>(limits)), service_("job", store_) {
    store_->Begin(1);
    grpc::ServerBuilder builder;
    ApplyServerSettings(builder);
    listener_ = Listener::Open({}).value();
    listener_->AddTo(builder, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    listener_->Serve();
    grpc::ChannelArguments unlimited;
    unlimited.SetMaxSendMessageSize(-1);
    stub_ = proto::KeyValue::NewStub(grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", listener_->port()),
                                                               grpc::InsecureChannelCredentials(), unlimited));
  }
  ~KeyValueFixture() {
    listener_.reset();
    server_->Shutdown();
  }

  absl::StatusCode Set(const std::string& key, size_t bytes) {
    proto::SetRequest request;
    request.mutable_caller()->set_job("job");
    request.mutable_caller()->set_generation(1);
    proto::KeyAndValue* entry = request.add_entries();
    entry->set_key(key);
    entry->set_value(std::string(bytes, 'x'));
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(absl::Seconds(20)));
    proto::SetReply reply;
    return FromGrpc(stub_->Set(&context, request, &reply)).code();
  }

 private:
  std::shared_ptr<KeyValueStore> store_;
  KeyValueService service_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<proto::KeyValue::Stub> stub_;
};

TEST(Limits, AnOversizedMessageEndsItsCallAndTheServerGoesOn) {
  KeyValueFixture fixture({});
  EXPECT_EQ(fixture.Set("k", static_cast<size_t>(kMaxMessageBytes) + 1), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fixture.Set("k", (16 << 20) + 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fixture.Set(std::string(1025, 'k'), 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fixture.Set("k", 1), absl::StatusCode::kOk);
}

TEST(Limits, KeysAndBytesAreCounted) {
  KeyValueStore::Limits limits;
  limits.max_keys = 3;
  limits.max_total_bytes = 1000;
  KeyValueFixture fixture(limits);
  EXPECT_EQ(fixture.Set("a", 1), absl::StatusCode::kOk);
  EXPECT_EQ(fixture.Set("b", 1001), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fixture.Set("b", 1), absl::StatusCode::kOk);
  EXPECT_EQ(fixture.Set("c", 1), absl::StatusCode::kOk);
  EXPECT_EQ(fixture.Set("d", 1), absl::StatusCode::kResourceExhausted);
}

TEST(Limits, ConnectionsPastTheLimitAreClosedAndRoomIsFoundAgain) {
  auto server = RendezvousServer::Start({.job = "job", .max_connections = 3}).value();
  auto held = std::make_unique<std::vector<std::unique_ptr<RawConnection>>>();
  for (int i = 0; i < 3; ++i) held->push_back(std::make_unique<RawConnection>(server->port()));
  RawConnection fourth(server->port());
  EXPECT_TRUE(WaitUntil([&] { return fourth.IsClosed(); }, absl::Seconds(5)));
  for (const auto& connection : *held) EXPECT_FALSE(connection->IsClosed());
  held.reset();  // gRPC closes its ends
  RendezvousClient::Options options;
  options.address = absl::StrCat("127.0.0.1:", server->port());
  options.job = "job";
  options.incarnation = "i";
  options.node.set_node_id("n");
  options.node.set_slots(1);
  options.connect_timeout = absl::Seconds(20);
  const auto client = RendezvousClient::Connect(options);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Join(absl::Seconds(20)).ok());
}

TEST(Listener, AUnixSocketIsOursAlone) {
  TempDir dir;
  const std::string path = dir.Path("socket");
  auto serve = [&](uid_t user) {
    auto listener = Listener::Open({.unix_path = path, .only_user = user}).value();
    struct stat info{};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    KeyValueService service("job", std::make_shared<KeyValueStore>());
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    ApplyServerSettings(builder, Link::kLocal);
    listener->AddTo(builder, grpc::InsecureServerCredentials());
    auto server = builder.BuildAndStart();
    listener->Serve();
    auto channel =
        grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), ChannelSettings(Link::kLocal));
    const bool connected = channel->WaitForConnected(DeadlineAfter(absl::Seconds(user == geteuid() ? 20 : 1)));
    listener.reset();
    server->Shutdown();
    return connected;
  };
  EXPECT_TRUE(serve(geteuid()));
  EXPECT_FALSE(serve(geteuid() + 1));  // as if we were another user
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(Listener, AllAddressesAreOfBothIps) {
  const auto all = Listener::Open({.address = "0.0.0.0"}).value();
  RawConnection over_v4(all->port());
  for (const char* address : {"127.0.0.1", "0.0.0.0"}) {
    EXPECT_EQ(Listener::Open({.address = address, .port = all->port()}).status().code(),
              absl::StatusCode::kAlreadyExists);
  }
}

TEST(Listener, ErrorsOfBindHaveTheirReason) {
  EXPECT_EQ(Listener::Open({.unix_path = std::string(200, 'x')}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Listener::Open({.unix_path = "/no/such/folder/socket"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto one = Listener::Open({}).value();
  EXPECT_EQ(Listener::Open({.port = one->port()}).status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace composer
