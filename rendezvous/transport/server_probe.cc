// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/server_probe.h"

#include <cerrno>
#include <string>

#include "net/endpoint.h"
#include "net/network_facts.h"

namespace composer {

ServerState ProbeServer(const std::string& address, absl::Duration limit) {
  const auto endpoints = ParseEndpoints(address, 0);
  if (!endpoints.ok()) return ServerState::kSilent;
  const auto found = ResolveHost(endpoints->front().host);
  if (!found.ok()) return ServerState::kSilent;
  ServerState state = ServerState::kSilent;
  for (const std::string& numeric : *found) {
    const int error = TryConnect(numeric, endpoints->front().port, limit);
    if (error == 0) return ServerState::kServing;
    if (error == ECONNREFUSED) state = ServerState::kRefused;
  }
  return state;
}

}  // namespace composer
