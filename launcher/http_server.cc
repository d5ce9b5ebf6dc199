// SPDX-License-Identifier: Apache-2.0
#include "launcher/http_server.h"

#include <httplib.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/job_status.h"

namespace composer {
namespace {

constexpr size_t kThreads = 2;  // scrapers come one at a time
constexpr size_t kMaxBody = 1024;
constexpr time_t kIdleSeconds = 5;

}  // namespace

class HttpServer::Implementation {
 public:
  explicit Implementation(Options options) : options_(std::move(options)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_tcp_nodelay(true);
    server_.set_payload_max_length(kMaxBody);
    server_.set_read_timeout(kIdleSeconds);
    server_.set_write_timeout(kIdleSeconds);
    server_.set_keep_alive_timeout(kIdleSeconds);
    // SO_REUSEADDR alone: httplib's default lets two launchers share a port.
    server_.set_socket_options([](socket_t fd) {
      const int on = 1;
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      Answer(response, "text/plain; version=0.0.4; charset=utf-8", PrometheusText);
    });
    server_.Get("/status", [this](const httplib::Request&, httplib::Response& response) {
      Answer(response, "application/json", StatusJson);
    });
    server_.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("ok\n", "text/plain");
    });
  }
  ~Implementation() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  // The port; -1 when it cannot be had.
  int Bind() {
    if (options_.port == 0) return server_.bind_to_any_port(options_.address.c_str());
    return server_.bind_to_port(options_.address.c_str(), options_.port) ? options_.port : -1;
  }
  void Serve() {
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();  // stop() before this is lost
  }

 private:
  void Answer(httplib::Response& response, const char* type, std::string (*format)(const proto::JobStatus&)) {
    const std::optional<proto::JobStatus> status = options_.status();
    if (!status.has_value()) {
      response.status = 503;
      return;
    }
    response.set_header("Cache-Control", "no-store");
    response.set_content(format(*status), type);
  }

  const Options options_;
  httplib::Server server_;
  std::thread thread_;
};

HttpServer::HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(Options options) {
  const std::string where = absl::StrCat(options.address, ":", options.port);
  std::unique_ptr<HttpServer> server(new HttpServer);
  server->implementation_ = std::make_unique<Implementation>(std::move(options));
  server->port_ = server->implementation_->Bind();
  if (server->port_ <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--http-port: cannot listen on ", where, ": in use, or no address of this machine"));
  }
  server->implementation_->Serve();
  return server;
}

HttpServer::~HttpServer() = default;

}  // namespace composer
