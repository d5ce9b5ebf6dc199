// Serves the dashboard at /, /metrics (Prometheus), /status (JSON) and /healthz on one port, read-only. Off unless
// --http-port is given. /events is a stream of server-sent events for the dashboard: `job` each second, or each third
// when the job is large, and what is new of records and of a log (launcher/control/dashboard_viewer.h). /traces/NAME is
// a file of the profiler, for those who have the key (launcher/control/trace_files.h); at most 8 are sent at a time.
//
// It has one thread and non-blocking sockets: an idle, slow or half-open connection costs a descriptor but does not
// delay others. At most 256 are open; one more evicts the oldest that has not sent its request yet. A request that is
// not complete after 5 s ends its connection, as does a reader that takes longer than 10 s, or does not read a stream
// for so long. At most 32 streams are open; a slow reader of one misses states of the job but no records.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "launcher/control/dashboard_data.h"
#include "proto/control.pb.h"

namespace composer {

class HttpServer {
 public:
  using StatusReceiver = std::function<void(absl::StatusOr<proto::JobStatus>)>;

  struct Options {
    std::string address = "127.0.0.1";
    int port = 0;  // 0 means any free one
    // Called on the server's thread and must not block. Must call the receiver once, at once or later, from any thread,
    // even when the server is gone. On an error, or without an answer within 3 s, the client gets 503.
    std::function<void(StatusReceiver)> status;
    DashboardData::Options dashboard = {};
  };

  // Returns kInvalidArgument if the address or the port is unavailable.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Options options);
  ~HttpServer();

  int port() const { return port_; }

 private:
  class Loop;

  HttpServer();

  std::unique_ptr<Loop> loop_;
  std::thread thread_;
  int port_ = 0;
};

}  // namespace composer
