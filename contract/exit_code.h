// The exit codes of workers and launchers: what a code says to whoever started the process. One table serves both
// sides, --help, and the documents (tools/check_reference_doc.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace composer::exit_code {

inline constexpr int kDone = 0;
inline constexpr int kUserError = 64;    // never retried
inline constexpr int kUnavailable = 69;  // a peer, the store or the launcher is gone
inline constexpr int kFailure = 70;      // a failure of the run; counts against the restarts
inline constexpr int kPreempted = 75;    // a checkpoint is saved: run again
inline constexpr int kBudgetSpent = 93;  // the launcher's restarts are used up: do not requeue
inline constexpr int kSignalled = 128;   // 128 + n: killed by signal n

struct Meaning {
  int code;
  const char* meaning;
  const char* follows;  // what a launcher does with a worker's code, or whoever started the launcher with its own
};
inline constexpr Meaning kMeanings[] = {
    {kDone, "done", "nothing is left to do"},
    {kUserError, "the user's error: wrong usage, configuration, data path", "never tried again"},
    {kUnavailable, "a peer, store or service is gone", "not counted if another rank failed"},
    {kFailure, "a failure in the run", "counts against the restarts"},
    {kPreempted, "stopped after a checkpoint was saved", "run the same command again"},
    {kBudgetSpent, "the restarts are spent", "do not requeue"},
    {kSignalled, "killed by signal n", "as 70, or nothing when the launcher sent the signal"},
};

}  // namespace composer::exit_code
