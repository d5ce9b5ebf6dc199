// The rendezvous as a process of its own: forked beside the spawner at launch, restarted through `composer serve` after
// it died, or run alone by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "launcher/rendezvous/job_security.h"
#include "rendezvous/membership/membership.h"

namespace composer {

struct ServeOptions {
  std::string job = "composer";
  std::string bind_address = "127.0.0.1";
  int port = 0;
  int min_nodes = 1;
  int max_nodes = 1;
  double last_call_seconds = 1;
  GrowPolicy grow = GrowPolicy::kAtCheckpoint;
  int grace_seconds = 60;  // for a running world's nodes to come back
  int blip_seconds = 10;   // MembershipPolicy.blip
  int settle_seconds = 0;  // for nodes of a world that an earlier rendezvous formed to report it
  int place = 0;           // index of this one in the list of hosts that may serve
  int places = 1;          // if more than one, a world needs a majority of the last one
  JobSecurity security;
  int report_fd = -1;        // receives "port N\n" or "error …\n" and is then closed; -1 means that the port is printed
  bool of_launcher = false;  // the launcher controls its lifetime: SIGINT, SIGTERM and SIGHUP are ignored
};

// Returns the flags of `composer serve` that give these options, except report_fd and the token (PassToken).
std::vector<std::string> ToArguments(const ServeOptions& options);

// Serves until SIGTERM or SIGINT. Returns the exit code.
int Serve(const ServeOptions& options);

// Implements `composer serve [flags]`.
int ServeCommand(const std::vector<std::string>& arguments, const Environment& environment);

// Reads the port from the launcher's end of report_fd. Returns kInvalidArgument if the port is in use or not allowed,
// and kUnavailable if the process ended without reporting.
absl::StatusOr<int> ReadServePort(int fd);

}  // namespace composer
