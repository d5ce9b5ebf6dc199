// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous_link.h"

#include <utility>

#include "base/log.h"
#include "base/status_macros.h"

namespace composer {

absl::StatusOr<std::unique_ptr<RendezvousLink>> RendezvousLink::Start(RendezvousClient::Options options,
                                                                      Handlers handlers, absl::Duration join_timeout) {
  std::unique_ptr<RendezvousLink> link(new RendezvousLink(std::move(options), std::move(handlers), join_timeout));
  RETURN_IF_ERROR(link->Connect());
  link->channel_ = link->client()->channel();
  return link;
}

RendezvousLink::~RendezvousLink() {
  if (joiner_.joinable()) joiner_.join();
}

absl::Status RendezvousLink::Connect() {
  ASSIGN_OR_RETURN(std::shared_ptr<RendezvousClient> client, RendezvousClient::Connect(options_));
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
  absl::StatusOr<proto::World> world = client()->Join(join_timeout_);
  if (world.ok() || absl::IsInvalidArgument(world.status()) || absl::IsDeadlineExceeded(world.status())) return world;
  {
    absl::MutexLock lock(&mutex_);
    if (leaving_) return world;
  }
  LOG(WARNING) << "connecting to the rendezvous again: " << world.status().message();
  RETURN_IF_ERROR(Connect());
  return client()->Join(join_timeout_);
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
