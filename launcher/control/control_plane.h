// Everything of a running launcher that can be seen or requested from outside: the control socket, the run file and the
// HTTP port. All start and end together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "launcher/control/control_server.h"
#include "launcher/options/service_flags.h"

namespace composer {

class HttpServer;
class RegisteredRun;

class ControlPlane {
 public:
  struct Options {
    ControlPlaneFlags flags;
    std::string job;
    std::string run_folder;  // "" for programs
    std::string temp_folder;
    Credentials credentials;
    ControlServer::Handler handler;
    std::function<void(proto::JobStatus&)> complete;  // see ControlServer::Options
  };

  // Returns errors of the user's, such as a port in use. A run file that cannot be written is only a warning, because
  // the job matters more.
  static absl::StatusOr<std::unique_ptr<ControlPlane>> Start(const Options& options, const Environment& environment);
  ~ControlPlane();

 private:
  ControlPlane();

  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<RegisteredRun> registered_;
};

}  // namespace composer
