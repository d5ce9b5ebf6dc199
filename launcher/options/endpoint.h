// HOST:PORT as users write it. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct Endpoint {
  std::string host;  // a name, an IPv4 or an IPv6 address without brackets
  int port = 0;

  // "host:port", "[::1]:port".
  std::string ToString() const;
  bool operator==(const Endpoint&) const = default;
};

// "host", "host:port", "::1", "[::1]:port", several with commas (the first is asked first). A missing port is
// `default_port`. kInvalidArgument: empty, a host with other characters than names and addresses have or over 253 long, a
// port that is no number up to 65535, more than 64 of them.
absl::StatusOr<std::vector<Endpoint>> ParseEndpoints(absl::string_view text, int default_port);

// "localhost", 127.x.y.z, ::1.
bool IsLoopbackName(absl::string_view host);

}  // namespace composer
