// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/torch_status.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <new>
#include <system_error>

namespace composer {
namespace {

TEST(TorchStatus, EachExceptionHasItsCode) {
  using absl::StatusCode;
  EXPECT_TRUE(CatchTorch([] {}).ok());
  EXPECT_EQ(CatchTorch([] { throw std::bad_alloc(); }).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(CatchTorch([] { TORCH_CHECK_VALUE(false, "bad value"); }).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CatchTorch([] { TORCH_CHECK_INDEX(false, "bad index"); }).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(CatchTorch([] { TORCH_CHECK_NOT_IMPLEMENTED(false, "no"); }).code(), StatusCode::kUnimplemented);
  EXPECT_EQ(CatchTorch([] { TORCH_CHECK(false, "other"); }).code(), StatusCode::kInternal);
  EXPECT_EQ(CatchTorch([] { C10_THROW_ERROR(DistStoreError, "gone"); }).code(), StatusCode::kUnavailable);
  EXPECT_EQ(CatchTorch([] { throw StatusError(absl::DataLossError("torn")); }).code(), StatusCode::kDataLoss);
  EXPECT_EQ(CatchTorch([] { throw 7; }).code(), StatusCode::kUnknown);
  EXPECT_EQ(CatchTorch([] { return absl::CancelledError("drained"); }).code(), StatusCode::kCancelled);
}

TEST(TorchStatus, AThreadThatCannotStartNamesMemoryAndTheLimitOnThreads) {
  const auto fail = [](std::errc code) { throw std::system_error(std::make_error_code(code)); };
  const absl::Status status = CatchTorch([&] { fail(std::errc::resource_unavailable_try_again); });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("out of memory or of threads"), std::string::npos);
  EXPECT_EQ(CatchTorch([&] { fail(std::errc::io_error); }).code(), absl::StatusCode::kInternal);
}

TEST(TorchStatus, TheMessageHasNoBacktrace) {
  const absl::Status status = CatchTorch([] { torch::ones({2, 3}).mm(torch::ones({2, 3})); });
  EXPECT_NE(status.message().find("mat1 and mat2"), std::string::npos);
  EXPECT_EQ(status.message().find("frame #"), std::string::npos);
}

}  // namespace
}  // namespace composer
