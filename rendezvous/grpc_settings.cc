// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/grpc_settings.h"

#include <grpc/support/log.h>

#include <algorithm>
#include <string>

#include "base/log.h"

namespace composer {
namespace {

int Millis(absl::Duration duration) { return static_cast<int>(absl::ToInt64Milliseconds(duration)); }

// Every failure reaches us as a Status that says more: gRPC's own lines are for debugging (glog's -v=1).
void QuietGrpcLog() {
  gpr_set_log_function(
      [](gpr_log_func_args* args) { VLOG(1) << "grpc " << args->file << ":" << args->line << " " << args->message; });
}

}  // namespace

grpc::ChannelArguments ChannelSettings(Link link) {
  QuietGrpcLog();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Millis(kConnectTimeout));  // in spite of its name: of one attempt
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  if (link == Link::kLocal) return arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(kClientKeepaliveTime));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(kKeepaliveTimeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return arguments;
}

void ApplyServerSettings(grpc::ServerBuilder& builder, Link link) {
  QuietGrpcLog();
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Millis(kHandshakeTimeout));
  if (link == Link::kLocal) return;
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(kKeepaliveTime));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(kKeepaliveTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, Millis(kKeepaliveTime) / 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

std::chrono::system_clock::time_point DeadlineAfter(absl::Duration duration) {
  // A year is as good as for ever, and adds to the clock without overflow.
  return std::chrono::system_clock::now() + absl::ToChronoMicroseconds(std::min(duration, absl::Hours(24 * 365)));
}

}  // namespace composer
