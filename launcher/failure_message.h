// The one message that names the first cause of a generation's end. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/restart_policy.h"

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

}  // namespace composer
