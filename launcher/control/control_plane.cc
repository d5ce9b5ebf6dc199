// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/control_plane.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/console.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "launcher/control/http_server.h"
#include "launcher/control/run_file.h"
#include "net/endpoint.h"

namespace composer {
namespace {

absl::StatusOr<std::unique_ptr<RegisteredRun>> Register(const ControlPlane::Options& options, const std::string& socket,
                                                        const Environment& environment) {
  ASSIGN_OR_RETURN(const std::string registry, RegistryFolder(environment));
  RunFile run;
  run.job = options.job;
  run.run_folder = options.run_folder;
  run.socket = socket;
  return RegisteredRun::Make(registry, run);
}

}  // namespace

ControlPlane::ControlPlane() = default;
ControlPlane::~ControlPlane() = default;

absl::StatusOr<std::unique_ptr<ControlPlane>> ControlPlane::Start(const Options& options,
                                                                  const Environment& environment) {
  std::unique_ptr<ControlPlane> result(new ControlPlane);
  const std::string socket = options.temp_folder + "/control";
  ASSIGN_OR_RETURN(result->control_, ControlServer::Start({.socket_path = socket,
                                                           .port = options.flags.control_port,
                                                           .address = options.flags.control_address,
                                                           .credentials = options.credentials,
                                                           .handler = options.handler,
                                                           .complete = options.complete}));
  if (options.flags.control_port == 0) PrintToUser(absl::StrCat("control port ", result->control_->port()));
  if (options.flags.http_port >= 0) {
    const std::string key = RandomHex(16);
    ASSIGN_OR_RETURN(
        result->http_,
        HttpServer::Start({.address = options.flags.http_address,
                           .port = options.flags.http_port,
                           .status =
                               [handler = options.handler](HttpServer::StatusReceiver receiver) {
                                 handler({.answer = ControlAnswer(std::move(receiver))});
                               },
                           .dashboard = {.source = {options.run_folder, key}, .complete = options.complete}}));
    if (options.flags.http_port == 0) PrintToUser(absl::StrCat("http port ", result->http_->port()));
    const Endpoint page = {options.flags.http_address, result->http_->port()};
    PrintToUser(absl::StrCat("dashboard with logs: http://", page.ToString(), "/#", key));
  }
  auto registered = Register(options, socket, environment);
  if (registered.ok()) {
    result->registered_ = *std::move(registered);
  } else {
    LOG(WARNING) << "`composer status` will not find this job: " << registered.status().message();
  }
  return result;
}

}  // namespace composer
