// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/grpc_settings.h"

#include <grpc/support/log.h>

#include <algorithm>
#include <string>

#include "absl/synchronization/mutex.h"
#include "base/log.h"

namespace composer {
namespace {

int Millis(absl::Duration duration) { return static_cast<int>(absl::ToInt64Milliseconds(duration)); }

// Sends gRPC's own log lines to debugging output (glog's -v=1): every failure reaches us as a Status that says more.
// Debian's Abseil checks for deadlocks at every lock of every absl::Mutex, gRPC's own included, in one graph of them
// all: with 10,000 connections that takes most of a process's time. Development builds keep the check.
void PrepareGrpc() {
  gpr_set_log_function(
      [](gpr_log_func_args* args) { VLOG(1) << "grpc " << args->file << ":" << args->line << " " << args->message; });
#ifdef NDEBUG
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

}  // namespace

grpc::ChannelArguments ChannelSettings(Link link, const Timeouts& timeouts) {
  PrepareGrpc();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Millis(timeouts.max_backoff));
  // Despite its name, this is the timeout of one attempt.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Millis(timeouts.connect_timeout));
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  if (link == Link::kLocal) {
    // gRPC's own retries keep 600 bytes of each message of a stream that the server has not answered, up to 15 MB a
    // stream (1.51; tests/rendezvous/stream_memory_test.cc), and a launcher is silent while all is well.
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    return arguments;
  }
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(timeouts.client_keepalive_time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(timeouts.keepalive_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return arguments;
}

void ApplyServerSettings(grpc::ServerBuilder& builder, Link link, const Timeouts& timeouts) {
  PrepareGrpc();
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Millis(timeouts.handshake_timeout));
  if (link == Link::kLocal) return;
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(timeouts.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(timeouts.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Millis(timeouts.keepalive_time) / 2);
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
  // A year is as good as forever, and adds to the clock without overflow.
  return std::chrono::system_clock::now() + absl::ToChronoMicroseconds(std::min(duration, absl::Hours(24 * 365)));
}

}  // namespace composer
