// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/server_probe.h"

#include <cerrno>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/network_facts.h"

namespace composer {

ServerState ProbeServer(const std::string& address, absl::Duration limit) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port)) return ServerState::kSilent;
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  const auto found = ResolveHost(std::string(host));
  if (!found.ok()) return ServerState::kSilent;
  ServerState state = ServerState::kSilent;
  for (const std::string& numeric : *found) {
    const int error = TryConnect(numeric, port, limit);
    if (error == 0) return ServerState::kServing;
    if (error == ECONNREFUSED) state = ServerState::kRefused;
  }
  return state;
}

}  // namespace composer
