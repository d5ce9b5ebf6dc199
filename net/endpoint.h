// HOST:PORT as users write it. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct Endpoint {
  std::string host;  // a name, or an IPv4 or IPv6 address without brackets
  int port = 0;

  // Returns "host:port" or "[::1]:port".
  std::string ToString() const;
  bool operator==(const Endpoint&) const = default;
};

// Parses "host", "host:port", "::1", "[::1]:port", or several separated by commas (the first is tried first). A missing
// port becomes `default_port`. Returns kInvalidArgument for an empty text, a host over 253 bytes or with characters
// that names and addresses do not have, a port that is not a number up to 65535, or more than 64 endpoints.
absl::StatusOr<std::vector<Endpoint>> ParseEndpoints(absl::string_view text, int default_port);

// Returns whether `host` is "localhost", 127.x.y.z or ::1.
bool IsLoopbackName(absl::string_view host);

}  // namespace composer
