// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous_link.h"

#include <utility>

#include "base/log.h"
#include "base/status_macros.h"

namespace composer {

absl::StatusOr<std::unique_ptr<RendezvousLink>> RendezvousLink::Start(RendezvousClient::Options options,
                                                                      Handlers handlers, const Limits& limits) {
  std::unique_ptr<RendezvousLink> link(new RendezvousLink(std::move(options), std::move(handlers), limits));
  RETURN_IF_ERROR(link->Connect(limits.first_connect));
  link->channel_ = link->client()->channel();
  return link;
}

RendezvousLink::~RendezvousLink() {
  if (joiner_.joinable()) joiner_.join();
}

absl::Status RendezvousLink::Connect(absl::Duration limit) {
  RendezvousClient::Options options = options_;
  options.connect_timeout = limit;
  ASSIGN_OR_RETURN(std::shared_ptr<RendezvousClient> client, RendezvousClient::Connect(std::move(options)));
  client->OnGenerationOver([this](const proto::GenerationOver& over) {
    if (over.cause().node_id().empty()) {
      LOG(WARNING) << "the rendezvous is away; the workers go on without it";
    } else {
      handlers_.on_generation_over(over);
    }
  });
  absl::MutexLock lock(&mutex_);
  client_ = std::move(client);
  return absl::OkStatus();
}

std::shared_ptr<RendezvousClient> RendezvousLink::client() {
  absl::MutexLock lock(&mutex_);
  return client_;
}

void RendezvousLink::Join() {
  if (joiner_.joinable()) joiner_.join();  // it has answered, or we would not be asked again
  joiner_ = std::thread([this] { handlers_.on_world(JoinOrReconnect()); });
}

absl::StatusOr<proto::World> RendezvousLink::JoinOrReconnect() {
  absl::StatusOr<proto::World> world = client()->Join(limits_.join);
  if (world.ok() || absl::IsInvalidArgument(world.status()) || absl::IsDeadlineExceeded(world.status())) return world;
  {
    absl::MutexLock lock(&mutex_);
    if (leaving_) return world;
  }
  LOG(WARNING) << "connecting to the rendezvous again: " << world.status().message();
  RETURN_IF_ERROR(Connect(options_.connect_timeout));
  return client()->Join(limits_.join);
}

void RendezvousLink::ReportEnded(const proto::FailureCause& cause) {
  if (absl::Status status = client()->ReportGenerationEnded(cause); !status.ok()) {
    LOG(INFO) << "the rendezvous does not hear of the failure: " << status.message();
  }
}

void RendezvousLink::Leave(absl::string_view reason) {
  {
    absl::MutexLock lock(&mutex_);
    leaving_ = true;
  }
  client()->Leave(reason);
}

}  // namespace composer
