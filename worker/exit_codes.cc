// SPDX-License-Identifier: Apache-2.0
#include "worker/exit_codes.h"

namespace composer {

int ExitCodeFor(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return exit_code::kDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return exit_code::kUserError;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return exit_code::kUnavailable;
    case absl::StatusCode::kCancelled:
      return exit_code::kPreempted;
    default:
      return exit_code::kFailure;
  }
}

}  // namespace composer
