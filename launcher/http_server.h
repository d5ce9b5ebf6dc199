// /metrics (Prometheus), /status (JSON) and /healthz on one port, read only. Off unless --http-port is given.
// Threads: its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/control.pb.h"

namespace composer {

class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    int port = 0;  // 0: any free one
    // Called on a thread of the server's, may block for a while; nullopt: no answer, the client gets 503.
    std::function<std::optional<proto::JobStatus>()> status;
  };

  // kInvalidArgument: the address or the port cannot be had.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Options options);
  ~HttpServer();

  int port() const { return port_; }

 private:
  class Implementation;

  HttpServer();

  std::unique_ptr<Implementation> implementation_;
  int port_ = 0;
};

}  // namespace composer
