// What of a running launcher can be seen and asked from outside: the control socket, the run file, the HTTP port. Started
// together, gone together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "base/options.h"
#include "launcher/control_server.h"

namespace composer {

class HttpServer;
class RegisteredRun;

struct ObservationFlags {
  int http_port = -1;  // -1: none; 0: any free one
  std::string http_address = "127.0.0.1";
  int control_port = -1;  // as http_port
  std::string control_address = "127.0.0.1";
};

// The table entries of `flags`.
std::vector<Option> ObservationOptions(ObservationFlags* flags);

class Observation {
 public:
  struct Options {
    ObservationFlags flags;
    std::string job;
    std::string run_folder;  // "" for programs
    std::string temp_folder;
    Credentials credentials;
    ControlServer::Handler handler;
    std::function<void(proto::JobStatus&)> complete;  // see ControlServer::Options
  };

  // Errors are the user's: a port in use. That the run file cannot be written is only a warning: the job matters more.
  static absl::StatusOr<std::unique_ptr<Observation>> Start(const Options& options, const Environment& environment);
  ~Observation();

 private:
  Observation();

  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<RegisteredRun> registered_;
};

}  // namespace composer
