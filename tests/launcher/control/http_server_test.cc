// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "launcher/control/http_request.h"
#include "tests/support/processes.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ParseHttpRequestTest, GetAndHeadOnly) {
  const std::string endless = "GET /metrics HTTP/1.1\r\n" + std::string(kMaxHttpRequest, 'x');
  const struct {
    std::string received;
    int status;
    std::string path;
  } cases[] = {
      {"", 0, ""},
      {"GET /metrics HTTP/1.1\r\nHost: a\r\n", 0, ""},
      {"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 200, "/metrics"},
      {"GET /metrics?name[]=x HTTP/1.0\n\n", 200, "/metrics"},
      {"HEAD / HTTP/1.1\r\n\r\nrest", 200, "/"},
      {"POST /metrics HTTP/1.1\r\n\r\n", 405, ""},
      {"GET /metrics HTTP/2.0\r\n\r\n", 505, ""},
      {"GET metrics HTTP/1.1\r\n\r\n", 400, ""},
      {"GET /a b HTTP/1.1\r\n\r\n", 400, ""},
      {"\r\n\r\n", 400, ""},
      {std::string("\0\xff\r\n\r\n", 6), 400, ""},
      {endless, 431, ""},
      {endless.substr(0, kMaxHttpRequest - 1), 0, ""},
      {endless + "\r\n\r\n", 431, ""},
  };
  for (const auto& c : cases) {
    const HttpRequestHead request = ParseHttpRequest(c.received);
    EXPECT_EQ(request.status, c.status) << c.received.substr(0, 100);
    EXPECT_EQ(request.path, c.path);
  }
  EXPECT_TRUE(ParseHttpRequest("HEAD / HTTP/1.1\r\n\r\n").head);
  EXPECT_THAT(HttpResponse(200, "text/plain", "ok\n", true),
              AllOf(HasSubstr("Content-Length: 3"), EndsWith("\r\n\r\n")));
}

// The client's end of a connection. Its receives time out after 5 s.
class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(absl::string_view text) { [[maybe_unused]] auto sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }
  // Receives until `text` has come; returns all that came.
  std::string ReceiveUntil(absl::string_view wanted) {
    std::string text;
    char buffer[4096];
    pollfd ready = {fd_, POLLIN, 0};
    while (!absl::StrContains(text, wanted) && poll(&ready, 1, 30'000) > 0) {
      const ssize_t count = recv(fd_, buffer, sizeof(buffer), 0);
      if (count <= 0) return text + "(closed)";
      text.append(buffer, static_cast<size_t>(count));
    }
    return text;
  }
  // Receives until the server closes.
  std::string Receive() {
    std::string text;
    char buffer[4096];
    pollfd ready = {fd_, POLLIN, 0};
    while (poll(&ready, 1, 30'000) > 0) {  // the server itself closes after 5 s
      const ssize_t count = recv(fd_, buffer, sizeof(buffer), 0);
      if (count <= 0) return text;
      text.append(buffer, static_cast<size_t>(count));
    }
    return text + "(no end)";
  }
  std::string Ask(absl::string_view path) {
    Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: here\r\n\r\n"));
    return Receive();
  }

 private:
  const int fd_;
};

proto::JobStatus AStatus() {
  proto::JobStatus status;
  status.set_job("a job");
  status.set_state("running");
  return status;
}

std::unique_ptr<HttpServer> Serve(std::function<void(HttpServer::StatusReceiver)> status = {}) {
  if (!status) status = [](const HttpServer::StatusReceiver& receiver) { receiver(AStatus()); };
  return HttpServer::Start({.status = std::move(status)}).value();
}

TEST(HttpServerTest, ServesItsPages) {
  const auto server = Serve();
  EXPECT_THAT(Client(server->port()).Ask("/healthz"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nok\n")));
  EXPECT_THAT(Client(server->port()).Ask("/metrics"),
              AllOf(HasSubstr("version=0.0.4"), HasSubstr("composer_running{job=\"a job\"")));
  EXPECT_THAT(Client(server->port()).Ask("/status?x=1"),
              AllOf(HasSubstr("application/json"), HasSubstr("\"job\": \"a job\"")));
  EXPECT_THAT(Client(server->port()).Ask("/"), AllOf(HasSubstr("text/html"), EndsWith("</html>\n")));
  EXPECT_THAT(Client(server->port()).Ask("/nothing"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  Client post(server->port());
  post.Send("POST /status HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x'));
  EXPECT_THAT(post.Receive(), AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD")));
}

TEST(HttpServerTest, ATraceComesWholeAndOnlyForTheKey) {
  char name[] = "/tmp/composer-test-XXXXXX";
  const std::string folder = mkdtemp(name), trace(3 << 20, 'x');
  std::filesystem::create_directory(folder + "/traces");
  std::ofstream(folder + "/traces/ep0.json") << trace;
  {
    const auto server =
        HttpServer::Start({.status = [](const HttpServer::StatusReceiver& receiver) { receiver(AStatus()); },
                           .dashboard = {.source = {folder, "secret"}, .complete = nullptr}})
            .value();
    const std::string whole = Client(server->port()).Ask("/traces/ep0.json?key=secret");
    EXPECT_THAT(whole.substr(0, 100), AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("Content-Length: 3145728")));
    EXPECT_EQ(whole.substr(whole.find("\r\n\r\n") + 4), trace);
    for (const char* path : {"/traces/ep0.json", "/traces/ep0.json?key=", "/traces/ep0.json?key=secrets", "/traces/?x"})
      EXPECT_THAT(Client(server->port()).Ask(path), StartsWith("HTTP/1.1 403")) << path;
    EXPECT_THAT(Client(server->port()).Ask("/traces/none?key=secret"), StartsWith("HTTP/1.1 404"));
    EXPECT_THAT(Client(server->port()).Ask("/traces/..%2F..%2Fetc%2Fpasswd?key=secret"), StartsWith("HTTP/1.1 404"));
  }
  std::filesystem::remove_all(folder);
}

TEST(HttpServerTest, AStreamHasTheJobAndNewRecords) {
  char name[] = "/tmp/composer-test-XXXXXX";
  const std::string folder = mkdtemp(name);
  std::ofstream(folder + "/metrics.jsonl") << "{\"time/batch\":1}\n";
  {
    const auto server =
        HttpServer::Start({.status = [](const HttpServer::StatusReceiver& receiver) { receiver(AStatus()); },
                           .dashboard = {.source = {folder, "secret"}, .complete = nullptr}})
            .value();
    Client viewer(server->port());
    viewer.Send("GET /events HTTP/1.1\r\n\r\n");
    EXPECT_THAT(
        viewer.ReceiveUntil("\"time/batch\":1}"),
        AllOf(StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"), HasSubstr("event: records\n")));
    EXPECT_THAT(viewer.ReceiveUntil("event: job\ndata: "), Not(HasSubstr("(closed)")));
    std::ofstream(folder + "/metrics.jsonl", std::ios::app) << "{\"time/batch\":2}\n";
    EXPECT_THAT(viewer.ReceiveUntil("\"time/batch\":2}"), Not(HasSubstr("\"time/batch\":1}")));
    EXPECT_THAT(Client(server->port()).Ask("/events?rank=0"), StartsWith("HTTP/1.1 403 Forbidden"));
    EXPECT_THAT(Client(server->port()).Ask("/events?path=/etc"), StartsWith("HTTP/1.1 400 Bad Request"));
    EXPECT_THAT(Client(server->port()).Ask("/healthz"), HasSubstr("200 OK"));
  }
  std::filesystem::remove_all(folder);
}

TEST(HttpServerTest, ViewersThatDoNotReadAndTooManyOfThemHoldUpNobody) {
  proto::JobStatus large = AStatus();
  large.set_run_folder(std::string(1 << 20, 'x'));
  const auto server = Serve([&](const HttpServer::StatusReceiver& receiver) { receiver(large); });
  std::vector<std::unique_ptr<Client>> viewers;
  for (int i = 0; i < 32; ++i) {
    viewers.push_back(std::make_unique<Client>(server->port()));
    viewers.back()->Send("GET /events HTTP/1.1\r\n\r\n");
    EXPECT_THAT(viewers.back()->ReceiveUntil("event-stream"), HasSubstr("200 OK"));
  }
  EXPECT_THAT(Client(server->port()).Ask("/events"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Client(server->port()).Ask("/healthz"), HasSubstr("200 OK"));
  viewers.erase(viewers.begin());
  EXPECT_TRUE(WaitUntil(
      [&] {
        Client next(server->port());
        next.Send("GET /events HTTP/1.1\r\n\r\n");
        return absl::StrContains(next.ReceiveUntil("\r\n\r\n"), "200 OK");
      },
      absl::Seconds(20)));
}

TEST(HttpServerTest, APortInUseIsTheUsersError) {
  const auto server = Serve();
  const auto second = HttpServer::Start({.port = server->port(), .status = [](const auto&) {}});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(second.status().message()), AllOf(HasSubstr("--http-port"), HasSubstr("in use")));
}

TEST(HttpServerTest, NoStatusIs503AndHoldsUpNobody) {
  absl::Mutex mutex;
  std::vector<HttpServer::StatusReceiver> waiting;
  auto server = Serve([&](HttpServer::StatusReceiver receiver) {
    absl::MutexLock lock(&mutex);
    waiting.push_back(std::move(receiver));
  });
  Client refused(server->port()), late(server->port());
  refused.Send("GET /status HTTP/1.1\r\n\r\n");
  late.Send("GET /metrics HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(WaitUntil([&] { return absl::MutexLock(&mutex), waiting.size() == 2; }, absl::Seconds(5)));
  EXPECT_THAT(Client(server->port()).Ask("/healthz"), HasSubstr("200 OK"));
  waiting[0](absl::UnavailableError("the job is ending"));
  EXPECT_THAT(refused.Receive(), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(late.Receive(), StartsWith("HTTP/1.1 503 "));  // after 3 s
  server.reset();
  waiting[1](AStatus());  // the client is gone
}

// Slow and idle clients, in the numbers of an attack that the port used not to survive.
TEST(HttpServerTest, IdleAndDrippingConnectionsDoNotKeepTheHealthCheckAway) {
  const auto server = Serve();
  std::vector<std::unique_ptr<Client>> idle, dripping;
  for (int i = 0; i < 16; ++i) {
    idle.push_back(std::make_unique<Client>(server->port()));
    dripping.push_back(std::make_unique<Client>(server->port()));
    dripping.back()->Send("GET /healthz HTTP/1.1\r\n");
  }
  for (int round = 0; round < 5; ++round) {
    for (const auto& client : dripping) client->Send(absl::StrCat("X-", round, ": y\r\n"));
    Client probe(server->port());
    EXPECT_THAT(probe.Ask("/healthz"), HasSubstr("200 OK"));
  }
  for (int i = 0; i < 500; ++i) {  // more than may be open: the oldest are closed
    idle.push_back(std::make_unique<Client>(server->port()));
    idle.back()->Send("GET /hea");
  }
  EXPECT_THAT(Client(server->port()).Ask("/healthz"), HasSubstr("200 OK"));
  EXPECT_EQ(idle.front()->Receive(), "");
  idle.back()->Send("lthz HTTP/1.1\r\n\r\n");
  EXPECT_THAT(idle.back()->Receive(), HasSubstr("200 OK")) << "a slow one within its time";
  EXPECT_EQ(idle[idle.size() - 2]->Receive(), "") << "closed after some seconds";
}

}  // namespace
}  // namespace composer
