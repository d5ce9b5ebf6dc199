// SPDX-License-Identifier: Apache-2.0
#include "storage/retrying_http.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// Waits are cut into slices of this length, to check given_up in between.
constexpr absl::Duration kSlice = absl::Milliseconds(100);

absl::Duration RetryAfter(const HttpResponse& response) {
  int seconds = 0;
  return absl::SimpleAtoi(response.Header("retry-after"), &seconds) && seconds > 0 ? absl::Seconds(seconds)
                                                                                   : absl::ZeroDuration();
}

}  // namespace

absl::Status RetryingHttp::Wait(absl::Duration delay) {
  const absl::Time end = clock_.Now() + delay;
  for (absl::Duration left = delay; left > absl::ZeroDuration(); left = end - clock_.Now()) {
    if (given_up_) break;
    clock_.SleepFor(std::min(left, kSlice));
  }
  return given_up_ ? absl::CancelledError("given up") : absl::OkStatus();
}

absl::StatusOr<RepeatedAnswer> RetryingHttp::Send(HttpRequest request, const Prepare& prepare, const Judge& judge) {
  request.given_up = &given_up_;
  const absl::Time began = clock_.Now();
  RepeatedAnswer answer;
  for (int tries = 1;; ++tries) {
    HttpRequest one = request;
    RETURN_IF_ERROR(prepare(one));
    absl::StatusOr<HttpResponse> response = http_.Send(one);
    absl::Status failure = response.status();
    if (response.ok()) {
      failure = judge(*response);
      if (failure.ok()) {
        answer.response = *std::move(response);
        return answer;
      }
    } else if (!absl::IsUnavailable(failure)) {
      return failure;
    }
    answer.was_repeated = true;
    const absl::Duration wait = response.ok() ? RetryAfter(*response) : absl::ZeroDuration();
    const auto delay = DelayBeforeRetry(retry_, tries, clock_.Now() - began, UniformRandom(), wait);
    if (!delay) return absl::UnavailableError(absl::StrCat(failure.message(), " (after ", tries, " tries)"));
    RETURN_IF_ERROR(Wait(*delay));
  }
}

}  // namespace composer
