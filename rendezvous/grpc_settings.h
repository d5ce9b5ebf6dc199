// How every gRPC channel and server of Composer is set up, and the cast between the two Status types (their code
// numbers are the same).
//
// Keepalive on both sides, so that a peer that vanished without a TCP reset (power, network, SIGSTOP) is noticed within
// kKeepaliveTime + kKeepaliveTimeout. No HTTP proxy: a *_proxy variable must not send control traffic away. gRPC's own
// log lines go to VLOG(1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace composer {

inline constexpr absl::Duration kKeepaliveTime = absl::Seconds(1);     // without traffic, then a ping
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(2);  // for its answer
inline constexpr int kMaxMessageBytes = 64 << 20;

// Reconnects after 100 ms to 2 s. Every channel has connections of its own.
grpc::ChannelArguments ChannelSettings();

// Also SO_REUSEPORT off: a port in use is an error, not a share of its connections.
void ApplyServerSettings(grpc::ServerBuilder& builder);

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// A deadline as gRPC takes it; more than a year becomes a year.
std::chrono::system_clock::time_point DeadlineAfter(absl::Duration duration);

}  // namespace composer
