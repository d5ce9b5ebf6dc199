// Tests how a server listens and a client connects.
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "tests/rendezvous/cluster.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

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
  int port = StartServer(1, 1)->port();  // the server is gone by now
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

// Relays one connection at a time to `port`, each after a pause: a machine with slow handshakes.
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

}  // namespace
}  // namespace composer
