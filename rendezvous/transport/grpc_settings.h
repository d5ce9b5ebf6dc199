// How every gRPC channel and server of Composer is set up, and the cast between the two Status types (their code
// numbers are the same).
//
// Over a network, both sides send keepalives as often as the job's Timeouts say: a peer that vanished without a TCP
// reset (power, cable, SIGSTOP) is noticed within keepalive_time + keepalive_timeout. HTTP proxies are disabled: a
// *_proxy variable must not divert control traffic. gRPC's own log lines go to VLOG(1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rendezvous/worlds/timeouts.h"

namespace composer {

inline constexpr int kMaxMessageBytes = 64 << 20;  // a larger one ends its call with RESOURCE_EXHAUSTED
// Simultaneous calls: a launcher forwards the waiting Gets of its workers.
inline constexpr int kMaxCallsPerConnection = 16 * 1024;
inline constexpr int kMaxMetadataBytes = 16 << 10;

enum class Link {
  kNetwork,
  // A Unix socket: the kernel reports a peer's death, and a peer that is only stopped (Ctrl-Z) is not lost.
  kLocal,
};

// Reconnects 100 ms to Timeouts::max_backoff after a failure, with some jitter. Every channel has its own connections.
grpc::ChannelArguments ChannelSettings(Link link = Link::kNetwork, const Timeouts& timeouts = {});

// Also turns off SO_REUSEPORT: a port in use is an error, not a share of its connections.
void ApplyServerSettings(grpc::ServerBuilder& builder, Link link = Link::kNetwork, const Timeouts& timeouts = {});

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// Converts a duration to a gRPC deadline; more than a year becomes a year.
std::chrono::system_clock::time_point DeadlineAfter(absl::Duration duration);

}  // namespace composer
