// Maps a worker's Status to its exit code. A pure table; the launcher's restart policy reads the codes.
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
#include "contract/exit_code.h"

namespace composer {

int ExitCodeFor(absl::StatusCode code);

}  // namespace composer
