// Connects to a rendezvous, and gives the reason when that fails. gRPC alone says "failed to connect" for a closed
// port, a wrong name, another job's token and an expired certificate alike, and keeps trying.
// Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rendezvous/transport/credentials.h"
#include "rendezvous/worlds/timeouts.h"

namespace composer {

// Returns a connected channel. Waits up to `timeout` for a server that is not up yet, but not for one that is up and
// will never accept us. `address`: host:port, [v6]:port or unix:/path.
// kUnauthenticated: the other side has other credentials (token, authority, expired certificate), or one side uses TLS
// and the other does not. kUnavailable: nothing answered; the message says what happened to a plain TCP connection.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& address, const Credentials& credentials,
                                                           absl::Duration timeout, const Timeouts& timeouts = {});

// Opens a separate connection to find out what is wrong. OK: nothing at present. kUnavailable: no connection, with the
// system's reason. kUnauthenticated as above. `limit` bounds the whole attempt.
absl::Status Diagnose(const std::string& address, const Credentials& credentials, absl::Duration limit);

}  // namespace composer
