// SPDX-License-Identifier: Apache-2.0
#include "worker/exit_codes.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(ExitCodes, EveryStatusHasOne) {
  using Code = absl::StatusCode;
  const std::pair<Code, int> cases[] = {
      {Code::kOk, 0},
      {Code::kCancelled, 75},
      {Code::kUnknown, 70},
      {Code::kInvalidArgument, 64},
      {Code::kDeadlineExceeded, 69},
      {Code::kNotFound, 64},
      {Code::kAlreadyExists, 64},
      {Code::kPermissionDenied, 64},
      {Code::kResourceExhausted, 70},
      {Code::kFailedPrecondition, 64},
      {Code::kAborted, 69},
      {Code::kOutOfRange, 70},
      {Code::kUnimplemented, 64},
      {Code::kInternal, 70},
      {Code::kUnavailable, 69},
      {Code::kDataLoss, 70},
      {Code::kUnauthenticated, 64},
  };
  for (const auto& [code, expected] : cases) EXPECT_EQ(ExitCodeFor(code), expected) << absl::StatusCodeToString(code);
  EXPECT_EQ(ExitCodeFor(static_cast<Code>(999)), 70);
}

}  // namespace
}  // namespace composer
