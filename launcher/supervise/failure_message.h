// The one message that names the first cause of a generation's end, for people and for the other nodes. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "launcher/supervise/restart_policy.h"
#include "proto/common.pb.h"

namespace composer {

struct FailureReport {
  WorkerExit exit;
  std::string node;  // host name
  pid_t pid = 0;
  std::string last_word;                 // the worker's own message in its ExitReport; "" if none
  std::vector<std::string> stderr_tail;  // last lines; empty if there are none or they were already shown
  std::string log_path;                  // "" if there is no log file
  std::string python;                    // a script's interpreter, named when the script misses a module; "" if none
};

// Returns "rank 1 on node-a (pid 77) was killed by SIGKILL (9)" and, indented below it, the details: at most 16 lines.
std::string DescribeFailure(const FailureReport& report);

// Returns "collateral: ranks 0, 2-7 (ended by the launcher), 9 (69)" for the exits other than the first cause; "" if
// there are none.
std::string DescribeCollateral(absl::Span<const WorkerExit> exits, int first_cause);

// Returns ranks in the form "0, 2-7".
std::string DescribeRanks(std::vector<int> ranks);

// Converts a failure for the other nodes. `certain` means that no later exit can explain it.
proto::FailureCause ToProto(const FailureReport& report, const std::string& node_id, bool certain, absl::Time when);

// Converts a verdict for the other nodes, which only ever receive kRestart and kGiveUp.
proto::Verdict ToProto(const Verdict& verdict);

// Converts what another node reported. Text for people is bounded; numbers out of range are clamped.
RemoteEnd FromProto(const proto::FailureCause& cause);
RestartTally FromProto(const proto::RestartTally& tally);
proto::RestartTally ToProto(const RestartTally& tally);

}  // namespace composer
