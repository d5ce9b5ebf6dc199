// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/control_client.h"

#include "base/status_macros.h"
#include "rendezvous/transport/grpc_settings.h"
#include "rendezvous/transport/open_channel.h"

namespace composer {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(5);

absl::Status Explain(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnavailableError("the launcher does not answer");
  }
  return Annotate(FromGrpc(status), "the launcher");
}

template <typename Request, typename Reply>
absl::Status Ask(proto::Control::Stub& stub,
                 grpc::Status (proto::Control::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                 const std::string& who) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(kPatience));
  Request request;
  request.set_who(who);
  Reply reply;
  return Explain((stub.*method)(&context, request, &reply));
}

}  // namespace

absl::StatusOr<ControlClient> ControlClient::Open(const std::string& address, const Credentials& credentials) {
  ASSIGN_OR_RETURN(const auto channel, OpenChannel(address, credentials, kPatience));
  return ControlClient(channel);
}

absl::StatusOr<proto::JobStatus> ControlClient::Status() {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(kPatience));
  proto::JobStatus status;
  RETURN_IF_ERROR(Explain(stub_->Status(&context, {}, &status)));
  return status;
}

absl::Status ControlClient::Save(const std::string& who) { return Ask(*stub_, &proto::Control::Stub::Save, who); }
absl::Status ControlClient::Profile(const std::string& who) { return Ask(*stub_, &proto::Control::Stub::Profile, who); }
absl::Status ControlClient::Stacks(const std::string& who) { return Ask(*stub_, &proto::Control::Stub::Stacks, who); }
absl::Status ControlClient::Drain(const std::string& who) { return Ask(*stub_, &proto::Control::Stub::Drain, who); }
absl::Status ControlClient::Stop(const std::string& who) { return Ask(*stub_, &proto::Control::Stub::Stop, who); }

}  // namespace composer
