// The exit codes of workers and launchers: what a code says to whoever started the process. One table serves both
// sides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace composer::exit_code {

inline constexpr int kDone = 0;
inline constexpr int kUserError = 64;    // configuration or data path: never retried
inline constexpr int kUnavailable = 69;  // a peer, the store or the launcher is gone
inline constexpr int kFailure = 70;      // a failure of the run; counts against the restarts
inline constexpr int kPreempted = 75;    // a checkpoint is saved: run again
inline constexpr int kBudgetSpent = 93;  // the launcher's restarts are used up: do not requeue
// 128 + n: killed by signal n

}  // namespace composer::exit_code
