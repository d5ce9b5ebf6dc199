// What a worker's exit code says, and back. Pure tables; the launcher's restart policy reads the codes.
//
//   0   OK
//   64  the user's mistake: never retried     kInvalidArgument kFailedPrecondition kUnimplemented kNotFound
//                                             kAlreadyExists kPermissionDenied kUnauthenticated
//   69  a peer, the store or the launcher is gone   kUnavailable kDeadlineExceeded kAborted
//   70  a failure, counted                    kInternal kResourceExhausted kDataLoss kUnknown kOutOfRange
//   75  preempted after a checkpoint          kCancelled
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"

namespace composer {

inline constexpr int kExitDone = 0;
inline constexpr int kExitUserError = 64;
inline constexpr int kExitUnavailable = 69;
inline constexpr int kExitFailure = 70;
inline constexpr int kExitPreempted = 75;

int ExitCodeFor(absl::StatusCode code);

// The code that stands for its group: kOk, kInvalidArgument, kUnavailable, kCancelled; kInternal for 70 and all others.
absl::StatusCode StatusCodeFor(int exit_code);

}  // namespace composer
