// Explains why the rendezvous cannot be reached: what was tried, from which interface, and what that means.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "net/endpoint.h"

namespace composer {

struct ReachAttempt {
  std::string address;    // numeric
  std::string source;     // local address; "" if there is no route
  std::string interface;  // the interface with that address; "" if unknown
  int error = 0;          // errno of the connection attempt; 0 if it was accepted
};

struct Reachability {
  Endpoint endpoint;
  std::string resolve_error;  // if not empty, the name has no address and nothing was tried
  std::vector<ReachAttempt> attempts;
};

// Resolves the name and connects once to each of its addresses, for at most `limit` each.
Reachability ProbeReachability(const Endpoint& endpoint, absl::Duration limit);

// Returns the current state in one line ("connection refused by 10.0.0.1:7501 …"). Pure.
std::string DescribeReachability(const Reachability& reachability);

// Returns the error message of a launcher that gives up after `tried`, with advice. Pure.
std::string ExplainUnreachable(const Reachability& reachability, absl::Duration tried);

}  // namespace composer
