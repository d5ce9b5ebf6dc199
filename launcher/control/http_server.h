// /metrics (Prometheus), /status (JSON) and /healthz on one port, read only. Off unless --http-port is given.
//
// One thread and non-blocking sockets: connections that are idle, slow or half open cost a descriptor each, and no time of
// others. At most 256 are open; for one more the oldest that has not asked yet goes. A request that is not complete after 5 s
// ends its connection, as does a reader that takes longer than 10 s.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "proto/control.pb.h"

namespace composer {

class HttpServer {
 public:
  using StatusReceiver = std::function<void(absl::StatusOr<proto::JobStatus>)>;

  struct Options {
    std::string address = "127.0.0.1";
    int port = 0;  // 0: any free one
    // Called on the server's thread, must not wait; calls the receiver once, now or later and from any thread, even when
    // the server is gone. An error, or no answer within 3 s: the client gets 503.
    std::function<void(StatusReceiver)> status;
  };

  // kInvalidArgument: the address or the port cannot be had.
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
