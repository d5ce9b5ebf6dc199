// The one message that names the first cause of a generation's end, for people and for the other nodes. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "launcher/restart_policy.h"
#include "proto/common.pb.h"

namespace composer {

struct FailureReport {
  WorkerExit exit;
  std::string node;  // host name
  pid_t pid = 0;
  std::string last_word;                 // the worker's own message in its ExitReport; "": none
  std::vector<std::string> stderr_tail;  // last lines; empty: none, or shown already
  std::string log_path;                  // "": no log file
};

// "rank 1 on node-a (pid 77) was killed by SIGKILL (9)" and, indented below, the rest.
std::string DescribeFailure(const FailureReport& report);

// The same for the other nodes.
proto::FailureCause ToProto(const FailureReport& report, const std::string& node_id, absl::Time when);

}  // namespace composer
