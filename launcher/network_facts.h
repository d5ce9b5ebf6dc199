// What the kernel and the resolver say of the network; nothing is decided here.
// Threads: any. Only TryConnect and ResolveHost take time: as long as their limit, and as long as the resolver's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace composer {

struct NetworkInterface {
  std::string name;
  std::string address;  // numeric; an interface with several is there several times
  bool loopback = false;
};

// Those that are up. Empty when the kernel does not say.
std::vector<NetworkInterface> ListInterfaces();

// Numeric addresses, each once, in the resolver's order. kNotFound says why not.
absl::StatusOr<std::vector<std::string>> ResolveHost(const std::string& host);

// The local address that packets to `address` (numeric) would come from; "" when there is no route. Sends nothing.
std::string SourceAddress(const std::string& address);

// errno of a TCP connection to a numeric address; 0: it was made (and closed again). ETIMEDOUT after `limit`.
int TryConnect(const std::string& address, int port, absl::Duration limit);

// Whether a server could listen there now.
bool PortIsFree(const std::string& address, int port);

}  // namespace composer
