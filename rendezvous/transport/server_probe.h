// Does anybody listen at an address? One TCP connection, closed at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/time/time.h"
#include "rendezvous/failover/succession.h"

namespace composer {

// address: "host:port", "[v6]:port". Blocks for at most `limit` and the resolving of the name. kServing: something
// accepted the connection; kRefused: the host said that nobody listens; kSilent: no answer, no route, no such name.
ServerState ProbeServer(const std::string& address, absl::Duration limit);

}  // namespace composer
