// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "rendezvous/service.h"
#include "rendezvous/store/key_value_service.h"
#include "rendezvous/transport/grpc_settings.h"
#include "rendezvous/transport/listener.h"
#include "rendezvous/worlds/rank_layout.h"

namespace composer {
namespace {

absl::Status CheckOptions(const RendezvousServer::Options& options) {
  if (options.job.empty()) return absl::InvalidArgumentError("rendezvous: job is empty");
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous: port is ", options.port, ", allowed are 0 (any) to 65535"));
  }
  if (options.min_nodes < 1 || options.max_nodes < options.min_nodes || options.max_nodes > kMaxNodes) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous: nodes are ", options.min_nodes, ":", options.max_nodes,
                                                   ", they must be min:max with 1 <= min <= max <= ", kMaxNodes));
  }
  return absl::OkStatus();
}

Coordinator::Options CoordinatorOptions(const RendezvousServer::Options& options) {
  const bool again = options.settle > absl::ZeroDuration();
  return {.job = options.job,
          .incarnation = RandomHex(8),
          .policy = {.min_nodes = options.min_nodes,
                     .max_nodes = options.max_nodes,
                     .last_call = options.last_call,
                     .grow = options.grow,
                     .quorum = options.quorum,
                     .holds_tie = options.holds_tie,
                     .quorum_wait = options.quorum_wait,
                     .grace = options.grace,
                     .blip = options.blip},
          .settled = again ? options.clock->Now() + options.settle : absl::InfinitePast(),
          .numbering = {.random = RandomBits(), .may_be_first = !again && options.holds_tie}};
}

}  // namespace

RendezvousServer::RendezvousServer() = default;

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(Options options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  auto listener = Listener::Open(
      {.address = options.bind_address, .port = options.port, .max_connections = options.max_connections});
  if (!listener.ok()) return Annotate(listener.status(), "rendezvous");
  auto store = std::make_shared<KeyValueStore>();
  std::unique_ptr<RendezvousServer> server(new RendezvousServer);
  server->listener_ = *std::move(listener);
  server->port_ = server->listener_->port();
  server->rendezvous_ = std::make_unique<RendezvousService>(CoordinatorOptions(options), options.clock, store);
  server->key_value_ = std::make_unique<KeyValueService>(options.job, store);
  grpc::EnableDefaultHealthCheckService(true);  // grpc.health.v1, for the probes of Kubernetes
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder, Link::kNetwork, TimeoutsOf(options.max_nodes));
  server->listener_->AddTo(builder, options.credentials.ForServer());
  builder.RegisterService(server->rendezvous_.get());
  builder.RegisterService(server->key_value_.get());
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::InternalError("rendezvous: gRPC did not start");
  server->listener_->Serve();
  server->server_->GetHealthCheckService()->SetServingStatus("composer.Rendezvous", true);
  return server;
}

RendezvousServer::~RendezvousServer() {
  listener_.reset();
  rendezvous_->Stop();
  if (server_ != nullptr) server_->Shutdown(DeadlineAfter(absl::Milliseconds(100)));
}

}  // namespace composer
