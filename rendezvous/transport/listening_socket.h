// A listening TCP socket, and bind errors with their reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace composer {

inline constexpr int kListenBacklog = 4096;  // capped by net.core.somaxconn

// Returns a non-blocking, close-on-exec socket that the caller owns. `address` is a host name or numeric; 0.0.0.0 and
// :: mean all interfaces, IPv4 and IPv6. Errors: those of BindError, and kInvalidArgument for a name that cannot be
// resolved.
absl::StatusOr<int> ListenOnTcp(const std::string& address, int port);

// kAlreadyExists: in use. kPermissionDenied: a port below 1024, or a folder we may not write. Otherwise
// kInvalidArgument.
absl::Status BindError(int error, const std::string& where);

// Returns the port of a TCP socket; 0 when it has none.
int PortOf(int fd);

}  // namespace composer
