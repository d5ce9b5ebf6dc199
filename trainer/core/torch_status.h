// This is the one translator between LibTorch's exceptions and absl::Status.
//
//   c10::OutOfMemoryError, std::bad_alloc            kResourceExhausted, marked as by OutOfMemoryStatus
//   std::system_error with EAGAIN (no thread starts) kResourceExhausted
//   c10::DistError and its children (store, network) kUnavailable
//   NotImplementedError                              kUnimplemented
//   ValueError, TypeError                            kInvalidArgument
//   IndexError                                       kOutOfRange
//   StatusError                                      the status it carries
//   any other c10::Error or std::exception           kInternal
//   anything else                                    kUnknown
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace composer {

// Carries a Status through code that throws (a data loader inside a step, say).
class StatusError final : public std::exception {
 public:
  explicit StatusError(absl::Status status) : status_(std::move(status)), text_(status_.ToString()) {}
  const absl::Status& status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  absl::Status status_;
  std::string text_;
};

// Throws StatusError unless the status is OK.
inline void ThrowIfError(const absl::Status& status) {
  if (!status.ok()) throw StatusError(status);
}

// Returns kResourceExhausted marked as memory, so that IsOutOfMemory can tell it from a full disk. Annotate drops the
// mark.
absl::Status OutOfMemoryStatus(absl::string_view message);
bool IsOutOfMemory(const absl::Status& status);

// Must be called in a catch block. The message has no backtrace.
absl::Status StatusFromCurrentException();

// Calls fn and returns OK, or the Status of what it threw. fn may return void or absl::Status.
template <typename Fn>
absl::Status CatchTorch(Fn&& fn) {
  try {
    if constexpr (std::is_void_v<decltype(fn())>) {
      fn();
      return absl::OkStatus();
    } else {
      return fn();
    }
  } catch (...) {
    return StatusFromCurrentException();
  }
}

}  // namespace composer
