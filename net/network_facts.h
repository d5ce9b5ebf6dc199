// What the kernel and the resolver report about the network; nothing is decided here.
// Thread-safe. Only functions with a limit or deadline block, and ResolveHost: as long as the resolver.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace composer {

struct NetworkInterface {
  std::string name;
  std::string address;  // numeric; an interface with several addresses is listed once for each
  bool loopback = false;
};

// Returns the interfaces that are up; empty when the kernel does not report them.
std::vector<NetworkInterface> ListInterfaces();

// Returns numeric addresses, each once, in the resolver's order. kNotFound says why there are none.
absl::StatusOr<std::vector<std::string>> ResolveHost(const std::string& host);

// Returns the local address that packets to `address` (numeric) would come from; "" when there is no route. Sends
// nothing.
std::string SourceAddress(const std::string& address);

// Waits until the descriptor is ready for `events` (as of poll(2)) or has failed. Returns false when the deadline is
// earlier.
bool IsReadyBy(int fd, short events, absl::Time deadline);  // NOLINT: poll's type

// Connects by TCP to a numeric address. Returns a non-blocking socket, which the caller closes, or -errno; -ETIMEDOUT
// after `limit`. With an interface, packets leave by it alone; -EPERM when the kernel does not permit that.
int ConnectTcp(const std::string& address, int port, absl::Duration limit, const std::string& interface = "");

// Connects like ConnectTcp and closes the connection again. Returns 0 on success, else errno.
int TryConnect(const std::string& address, int port, absl::Duration limit, const std::string& interface = "");

// Returns whether a server could listen there now.
bool PortIsFree(const std::string& address, int port);

}  // namespace composer
