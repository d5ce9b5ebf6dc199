// Finds out whether anything listens at an address, with one TCP connection that is closed at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/time/time.h"
#include "rendezvous/failover/succession.h"

namespace composer {

// address: "host:port", "[v6]:port". Blocks for at most `limit` per resolved address, plus the time to resolve the
// name. kServing: something accepted the connection; kRefused: the host reported that nobody listens; kSilent: no
// answer, no route, or no such name.
ServerState ProbeServer(const std::string& address, absl::Duration limit);

}  // namespace composer
