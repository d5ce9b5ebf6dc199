// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/http_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/mailbox.h"
#include "launcher/control/http_request.h"
#include "launcher/control/job_status.h"
#include "rendezvous/transport/listening_socket.h"

namespace composer {
namespace {

constexpr size_t kMaxHttpConnections = 256;
constexpr absl::Duration kRequestLimit = absl::Seconds(5);
constexpr absl::Duration kStatusLimit = absl::Seconds(3);
constexpr absl::Duration kResponseLimit = absl::Seconds(10);
constexpr absl::Duration kLingerLimit = absl::Seconds(1);
constexpr ptrdiff_t kMaxViewers = 32, kMaxDownloads = 8;
constexpr absl::Duration kNewsInterval = absl::Seconds(1), kLargeJobInterval = absl::Seconds(3);
constexpr size_t kLargeJob = 64 << 10;  // bytes of its status
constexpr uint64_t kAllViewers = 0;     // in the place of a connection
constexpr char kStreamHead[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";
constexpr absl::Duration kWithoutDescriptors = absl::Milliseconds(20);

struct Page {
  const char* path;
  const char* type;
  std::string (*format)(const proto::JobStatus&);
};
constexpr Page kPages[] = {{"/metrics", "text/plain; version=0.0.4; charset=utf-8", PrometheusText},
                           {"/status", "application/json", StatusJson}};

struct PageAnswer {
  uint64_t connection;
  absl::StatusOr<std::string> text;
};

struct Connection {
  enum class State {
    kReading,    // reads the request
    kWaiting,    // waits for the status
    kWriting,    // writes the response
    kStreaming,  // writes events whenever there are some
    kLingering,  // drains until the peer closes, so that extra input does not reset the connection
  };
  Connection(int socket, uint64_t number) : fd(socket), id(number), deadline(absl::Now() + kRequestLimit) {}
  ~Connection() { close(fd); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  short Events() const {
    if (state == State::kStreaming) return static_cast<short>(response.empty() ? POLLIN : POLLIN | POLLOUT);
    return state == State::kWaiting ? 0 : static_cast<short>(state == State::kWriting ? POLLOUT : POLLIN);
  }
  // Adds events to a stream.
  void Append(absl::string_view text) {
    if (response.empty() && !text.empty()) deadline = absl::Now() + kResponseLimit;
    absl::StrAppend(&response, text);
  }
  void Respond(std::string text) {
    response = std::move(text);
    state = State::kWriting;
    deadline = absl::Now() + kResponseLimit;
  }

  const int fd;
  const uint64_t id;
  State state = State::kReading;
  absl::Time deadline;
  std::string received;
  std::string response;   // the part that is not sent yet
  const char* type = "";  // of the answer that it waits for
  bool head = false;
  std::shared_ptr<DashboardViewer> viewer;        // of a stream of events
  std::shared_ptr<TraceDownload> download;        // of a stream that is a file
  absl::Time next_news = absl::InfiniteFuture();  // when it is asked for news; never while it is being asked
};

}  // namespace

class HttpServer::Loop {
 public:
  Loop(Options options, int listening)
      : options_(std::move(options)),
        dashboard_(std::make_shared<DashboardData>(options_.dashboard)),
        listening_(listening),
        stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Loop() {
    dashboard_->Stop();
    close(listening_);
    close(stop_);
  }

  void Stop() { eventfd_write(stop_, 1); }

  void Run() {
    std::vector<pollfd> polls;
    while (true) {
      polls.assign({{listening_, static_cast<short>(accepts_ ? POLLIN : 0), 0},
                    {stop_, POLLIN, 0},
                    {answers_->fd(), POLLIN, 0}});
      absl::Time wake = accepts_ ? absl::InfiniteFuture() : absl::Now() + kWithoutDescriptors;
      for (const Connection& c : connections_) {
        polls.push_back({c.fd, c.Events(), 0});
        wake = std::min({wake, c.deadline, c.response.empty() ? c.next_news : absl::InfiniteFuture()});
      }
      if (NumViewers() > 0) wake = std::min(wake, next_job_);
      poll(polls.data(), polls.size(), Milliseconds(wake));
      if (polls[1].revents != 0) return;
      size_t next = 3;
      for (Connection& c : connections_) Serve(c, polls[next++].revents);
      for (const PageAnswer& answer : answers_->Take()) Give(answer);
      HandleTime(absl::Now());
      AskForNews(absl::Now());
      connections_.remove_if([](const Connection& c) { return c.deadline == absl::InfinitePast(); });
      if (polls[0].revents != 0 || !accepts_) Accept();
    }
  }

 private:
  static int Milliseconds(absl::Time wake) {
    if (wake == absl::InfiniteFuture()) return -1;
    const absl::Duration wait = std::max(absl::ZeroDuration(), wake - absl::Now());
    return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
  }

  static void End(Connection& c) { c.deadline = absl::InfinitePast(); }

  void Accept() {
    while (true) {
      const int fd = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (fd < 0) {
        accepts_ = errno == EAGAIN;  // no descriptor is left, and the pending connection would wake us at once
        return;
      }
      if (connections_.size() >= kMaxHttpConnections) MakeRoom();
      connections_.emplace_back(fd, next_id_++);
    }
  }

  // Evicts the oldest connection that has not sent its request, else the oldest.
  void MakeRoom() {
    const auto silent = std::find_if(connections_.begin(), connections_.end(),
                                     [](const Connection& c) { return c.state == Connection::State::kReading; });
    connections_.erase(silent == connections_.end() ? connections_.begin() : silent);
  }

  void Serve(Connection& c, short events) {
    if (events == 0) return;
    if (c.state == Connection::State::kWaiting) return End(c);  // an error or a hang-up
    if (c.state == Connection::State::kStreaming && (events & ~POLLOUT) == 0) return Write(c);
    c.state == Connection::State::kWriting ? Write(c) : Read(c);
  }

  void Read(Connection& c) {
    char buffer[kMaxHttpRequest];
    const ssize_t count = read(c.fd, buffer, sizeof(buffer));
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return End(c);
    if (c.state != Connection::State::kReading) return;
    c.received.append(buffer, static_cast<size_t>(count));
    const HttpRequestHead request = ParseHttpRequest(c.received);
    if (request.status == 0) return;
    c.head = request.head;
    request.status == 200 ? Answer(c, request) : c.Respond(HttpResponse(request.status, c.head));
  }

  void Answer(Connection& c, const HttpRequestHead& request) {
    if (request.path == "/healthz") return c.Respond(HttpResponse(200, "text/plain", "ok\n", c.head));
    if (request.path == "/") return c.Respond(HttpResponse(200, "text/html; charset=utf-8", kDashboardPage, c.head));
    const auto give = GiverOf(c.id);
    if (request.path == "/events") return Stream(c, request);
    if (absl::StartsWith(request.path, kTracePath)) return Download(c, request);
    const auto* const page =
        std::find_if(std::begin(kPages), std::end(kPages), [&](const Page& p) { return p.path == request.path; });
    if (page == std::end(kPages)) return c.Respond(HttpResponse(404, c.head));
    Wait(c, page->type);
    options_.status([page, give](const absl::StatusOr<proto::JobStatus>& status) {
      status.ok() ? give(page->format(*status)) : give(status.status());
    });
  }

  // Returns what passes an answer on to this thread.
  DashboardData::Receiver GiverOf(uint64_t connection) const {
    return [answers = answers_, connection](absl::StatusOr<std::string> text) {
      answers->Post({connection, std::move(text)});
    };
  }

  ptrdiff_t NumDownloads() const {
    return std::count_if(connections_.begin(), connections_.end(),
                         [](const Connection& c) { return c.download != nullptr; });
  }

  void Download(Connection& c, const HttpRequestHead& request) {
    const absl::string_view key = absl::StripPrefix(request.query, "key=");
    if (!dashboard_->options().source.Opens(key)) return c.Respond(HttpResponse(403, c.head));
    if (NumDownloads() >= kMaxDownloads) return c.Respond(HttpResponse(503, c.head));
    c.download = std::make_shared<TraceDownload>(dashboard_->options().source.run_folder,
                                                 absl::StripPrefix(request.path, kTracePath), c.head);
    c.state = Connection::State::kStreaming;
    c.deadline = absl::InfiniteFuture();
    c.next_news = absl::Now();
  }

  ptrdiff_t NumViewers() const {
    return std::count_if(connections_.begin(), connections_.end(),
                         [](const Connection& c) { return c.viewer != nullptr; });
  }

  void Stream(Connection& c, const HttpRequestHead& request) {
    absl::StatusOr<std::unique_ptr<DashboardViewer>> viewer =
        DashboardViewer::Open(dashboard_->options().source, request.query);
    if (!viewer.ok()) return c.Respond(HttpResponse(absl::IsPermissionDenied(viewer.status()) ? 403 : 400, c.head));
    if (NumViewers() >= kMaxViewers) return c.Respond(HttpResponse(503, c.head));
    if (c.head) return c.Respond(kStreamHead);
    c.viewer = *std::move(viewer);
    c.state = Connection::State::kStreaming;
    c.Append(kStreamHead);
    c.next_news = absl::Now();
    next_job_ = std::min(next_job_, absl::Now());
  }

  void AskForNews(absl::Time now) {
    for (Connection& c : connections_) {
      if (!c.response.empty() || now < c.next_news) continue;
      c.next_news = absl::InfiniteFuture();
      c.download != nullptr ? dashboard_->Part(c.download, GiverOf(c.id)) : dashboard_->News(c.viewer, GiverOf(c.id));
    }
    if (now < next_job_ || NumViewers() == 0) return;
    next_job_ = now + kStatusLimit;  // unless it answers before
    options_.status([dashboard = dashboard_, give = GiverOf(kAllViewers)](absl::StatusOr<proto::JobStatus> status) {
      status.ok() ? dashboard->Job(*std::move(status), give) : give(status.status());
    });
  }

  void GiveToAllViewers(const absl::StatusOr<std::string>& event) {
    const bool large = event.ok() && event->size() > kLargeJob;
    next_job_ = absl::Now() + (large ? kLargeJobInterval : kNewsInterval);
    if (!event.ok()) return;
    for (Connection& c : connections_) {
      if (c.viewer != nullptr && c.response.size() < kLargeJob) c.Append(*event);
    }
  }

  static void GiveNews(Connection& c, const absl::StatusOr<std::string>& events) {
    c.Append(events.value_or(""));
    c.next_news = absl::Now() + (events.ok() && c.viewer->more() ? absl::ZeroDuration() : kNewsInterval);
  }

  static void GivePart(Connection& c, const absl::StatusOr<std::string>& part) {
    if (absl::IsUnavailable(part.status())) {  // too many requests
      c.next_news = absl::Now() + kNewsInterval;
      return;
    }
    if (!part.ok()) return End(c);
    if (c.download->done()) return c.Respond(*part);
    c.Append(*part);
    c.next_news = absl::Now();
  }

  static void Wait(Connection& c, const char* type) {
    c.type = type;
    c.state = Connection::State::kWaiting;
    c.deadline = absl::Now() + kStatusLimit;
  }

  void Give(const PageAnswer& answer) {
    if (answer.connection == kAllViewers) return GiveToAllViewers(answer.text);
    const auto it = std::find_if(connections_.begin(), connections_.end(),
                                 [&](const Connection& c) { return c.id == answer.connection; });
    if (it == connections_.end()) return;
    if (it->download != nullptr) return GivePart(*it, answer.text);
    if (it->state == Connection::State::kStreaming) return GiveNews(*it, answer.text);
    if (it->state != Connection::State::kWaiting) return;
    if (answer.text.ok()) return it->Respond(HttpResponse(200, it->type, *answer.text, it->head));
    it->Respond(HttpResponse(503, it->head));
  }

  void Write(Connection& c) {
    const ssize_t count = send(c.fd, c.response.data(), c.response.size(), MSG_NOSIGNAL);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count < 0) return End(c);
    c.response.erase(0, static_cast<size_t>(count));
    if (c.state == Connection::State::kStreaming) {
      c.deadline = c.response.empty() ? absl::InfiniteFuture() : absl::Now() + kResponseLimit;
      return;
    }
    if (!c.response.empty()) return;
    shutdown(c.fd, SHUT_WR);
    c.state = Connection::State::kLingering;
    c.deadline = absl::Now() + kLingerLimit;
  }

  void HandleTime(absl::Time now) {
    for (Connection& c : connections_) {
      if (now < c.deadline) continue;
      c.state == Connection::State::kWaiting ? c.Respond(HttpResponse(503, c.head)) : End(c);
    }
  }

  const Options options_;
  // Shared, because the supervisor may answer after this is gone; it is stopped before.
  const std::shared_ptr<DashboardData> dashboard_;
  const int listening_;
  const int stop_;
  // Shared, because the supervisor may answer after this is gone.
  const std::shared_ptr<Mailbox<PageAnswer>> answers_ = std::make_shared<Mailbox<PageAnswer>>();
  std::list<Connection> connections_;  // the oldest first
  uint64_t next_id_ = kAllViewers + 1;
  absl::Time next_job_ = absl::InfinitePast();  // when the viewers' next state of the job is asked for
  bool accepts_ = true;
};

HttpServer::HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(Options options) {
  const absl::StatusOr<int> listening = ListenOnTcp(options.address, options.port);
  if (!listening.ok()) return absl::InvalidArgumentError(absl::StrCat("--http-port: ", listening.status().message()));
  std::unique_ptr<HttpServer> server(new HttpServer);
  server->port_ = PortOf(*listening);
  server->loop_ = std::make_unique<Loop>(std::move(options), *listening);
  server->thread_ = std::thread([loop = server->loop_.get()] { loop->Run(); });
  return server;
}

HttpServer::~HttpServer() {
  if (!thread_.joinable()) return;
  loop_->Stop();
  thread_.join();
}

}  // namespace composer
