// SPDX-License-Identifier: Apache-2.0
#include "worker/exit_codes.h"

namespace composer {

int ExitCodeFor(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kExitUserError;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return kExitUnavailable;
    case absl::StatusCode::kCancelled:
      return kExitPreempted;
    default:
      return kExitFailure;
  }
}

absl::StatusCode StatusCodeFor(int exit_code) {
  switch (exit_code) {
    case kExitDone:
      return absl::StatusCode::kOk;
    case kExitUserError:
      return absl::StatusCode::kInvalidArgument;
    case kExitUnavailable:
      return absl::StatusCode::kUnavailable;
    case kExitPreempted:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace composer
