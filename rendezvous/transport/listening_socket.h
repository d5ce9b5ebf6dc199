// A listening TCP socket, and its errors with their reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace composer {

inline constexpr int kListenBacklog = 4096;  // capped by net.core.somaxconn

// Non-blocking, closed on exec; the caller owns it. `address`: a host name or numeric; 0.0.0.0 and :: are all, of both IPs.
// Errors: those of BindError, and kInvalidArgument for a name that cannot be resolved.
absl::StatusOr<int> ListenOnTcp(const std::string& address, int port);

// kAlreadyExists: in use. kPermissionDenied: a port below 1024, a folder we may not write. Else kInvalidArgument.
absl::Status BindError(int error, const std::string& where);

// "10.0.0.1:80", "[::1]:80".
std::string TcpAddress(const std::string& address, int port);

// That of a TCP socket; 0: it has none.
int PortOf(int fd);

}  // namespace composer
