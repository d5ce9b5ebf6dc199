// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client.h"

#include <utility>

#include "base/status_macros.h"
#include "rendezvous/client_stream.h"
#include "rendezvous/transport/open_channel.h"

namespace composer {

absl::StatusOr<std::unique_ptr<RendezvousClient>> RendezvousClient::Connect(Options options) {
  ASSIGN_OR_RETURN(auto channel, OpenChannel(options.address, options.credentials, options.connect_timeout,
                                             TimeoutsOf(options.max_nodes)));
  return std::unique_ptr<RendezvousClient>(new RendezvousClient(std::move(options), std::move(channel)));
}

RendezvousClient::RendezvousClient(Options options, std::shared_ptr<grpc::Channel> channel)
    : channel_(std::move(channel)), stream_(std::make_unique<Stream>(std::move(options), channel_)) {}

RendezvousClient::~RendezvousClient() = default;

absl::StatusOr<proto::World> RendezvousClient::Join(absl::Duration timeout, const proto::RestartTally& tally,
                                                    bool checkpointed) {
  return stream_->Join(timeout, tally, checkpointed);
}

void RendezvousClient::OnGenerationOver(std::function<void(const proto::GenerationOver&)> handler) {
  stream_->SetHandler(std::move(handler));
}

absl::Status RendezvousClient::Reattach(std::vector<proto::KeyMemory> keys, absl::Duration timeout) {
  return stream_->Reattach(std::move(keys), timeout);
}

proto::MembershipRecord RendezvousClient::record() const { return stream_->record(); }

void RendezvousClient::OnResize(std::function<void(const proto::Resize&)> handler) {
  stream_->SetResizeHandler(std::move(handler));
}

void RendezvousClient::OnSpare(std::function<void(const proto::Spare&)> handler) {
  stream_->SetSpareHandler(std::move(handler));
}

void RendezvousClient::OnLook(std::function<void()> handler) { stream_->SetLookHandler(std::move(handler)); }

void RendezvousClient::OnProbe(std::function<void(const proto::Probe&)> handler) {
  stream_->SetProbeHandler(std::move(handler));
}

void RendezvousClient::Answer(const proto::Probed& probed) { stream_->Answer(probed); }

void RendezvousClient::Report(const proto::NodeReport& report) { stream_->Report(report); }

absl::Status RendezvousClient::ReportGenerationEnded(const proto::FailureCause& cause) {
  return stream_->ReportGenerationEnded(cause);
}

void RendezvousClient::Leave(absl::string_view reason, bool done) { stream_->Leave(reason, done); }

}  // namespace composer
