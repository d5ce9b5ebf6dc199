// Why the rendezvous cannot be reached: what was tried, from which interface, and what that means.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "launcher/options/endpoint.h"

namespace composer {

struct ReachAttempt {
  std::string address;    // numeric
  std::string source;     // local address; "": no route
  std::string interface;  // that has it; "": unknown
  int error = 0;          // errno of the connection; 0: something accepted it
};

struct Reachability {
  Endpoint endpoint;
  std::string resolve_error;  // not empty: the name has no address, and there is no attempt
  std::vector<ReachAttempt> attempts;
};

// Resolves the name and connects once to each of its addresses, at most `limit` each.
Reachability ProbeReachability(const Endpoint& endpoint, absl::Duration limit);

// One line: the state now ("connection refused by 10.0.0.1:7501 …"). Pure.
std::string DescribeReachability(const Reachability& reachability);

// The error of a launcher that gives up after `tried`, with advice. Pure.
std::string ExplainUnreachable(const Reachability& reachability, absl::Duration tried);

}  // namespace composer
