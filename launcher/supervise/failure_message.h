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
  std::string last_word;                 // the worker's own message in its ExitReport; "": none
  std::vector<std::string> stderr_tail;  // last lines; empty: none, or shown already
  std::string log_path;                  // "": no log file
  std::string python;                    // the interpreter of a script: named when it misses a module; "": none
};

// "rank 1 on node-a (pid 77) was killed by SIGKILL (9)" and, indented below, the rest: at most 16 lines.
std::string DescribeFailure(const FailureReport& report);

// "collateral: ranks 0, 2-7 (ended by the launcher), 9 (69)", for those beside the first cause; "" when there are none.
std::string DescribeCollateral(absl::Span<const WorkerExit> exits, int first_cause);

// "0, 2-7".
std::string DescribeRanks(std::vector<int> ranks);

// The same for the other nodes. `certain`: no later exit can explain it.
proto::FailureCause ToProto(const FailureReport& report, const std::string& node_id, bool certain, absl::Time when);

// A verdict as it travels; only kRestart and kGiveUp do.
proto::Verdict ToProto(const Verdict& verdict);

// What another node told: text for people, bounded; numbers out of range count as the nearest in range.
RemoteEnd FromProto(const proto::FailureCause& cause);
RestartTally FromProto(const proto::RestartTally& tally);
proto::RestartTally ToProto(const RestartTally& tally);

}  // namespace composer
