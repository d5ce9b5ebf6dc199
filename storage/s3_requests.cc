// SPDX-License-Identifier: Apache-2.0
#include "storage/s3_requests.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// Waits are cut into slices of this length, to check given_up in between.
constexpr absl::Duration kSlice = absl::Milliseconds(100);

// Converts "https://s3.example.com" and "b" to "https://b.s3.example.com".
std::string VirtualOrigin(absl::string_view endpoint, absl::string_view bucket) {
  const size_t host = endpoint.find("://") + 3;
  return absl::StrCat(endpoint.substr(0, host), bucket, ".", endpoint.substr(host));
}

absl::Duration RetryAfter(const HttpResponse& response) {
  int seconds = 0;
  return absl::SimpleAtoi(response.Header("retry-after"), &seconds) && seconds > 0 ? absl::Seconds(seconds)
                                                                                   : absl::ZeroDuration();
}

}  // namespace

absl::Status S3Requests::Sign(HttpRequest& request) {
  ASSIGN_OR_RETURN(const SigningKey key, keys_.Get());
  // TLS already protects the body, and hashing it again would cost as much as sending it.
  const bool tls = absl::StartsWith(request.origin, "https://");
  const std::string hash = tls && !request.body.empty() ? std::string(kUnsignedPayload) : Sha256Hex(request.body);
  SignRequest(key, {bucket_.region, "s3"}, clock_.Now() + absl::Seconds(skew_seconds_.load()), hash, request);
  return absl::OkStatus();
}

void S3Requests::CorrectClock(const HttpResponse& response) {
  absl::Time server;
  std::string error;
  if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", std::string(response.Header("date")), &server, &error)) return;
  skew_seconds_ = absl::ToInt64Seconds(server - clock_.Now());
  LOG(WARNING) << "this machine's clock is " << -skew_seconds_.load() << " s ahead of " << bucket_.endpoint
               << ": requests are signed with the server's time";
}

absl::Status S3Requests::Wait(absl::Duration delay) {
  const absl::Time end = clock_.Now() + delay;
  for (absl::Duration left = delay; left > absl::ZeroDuration(); left = end - clock_.Now()) {
    if (given_up_) break;
    clock_.SleepFor(std::min(left, kSlice));
  }
  return given_up_ ? absl::CancelledError("given up") : absl::OkStatus();
}

absl::StatusOr<S3Answer> S3Requests::Send(HttpRequest request) {
  request.origin = bucket_.path_style ? bucket_.endpoint : VirtualOrigin(bucket_.endpoint, bucket_.name);
  request.path =
      bucket_.path_style ? absl::StrCat("/", bucket_.name, "/", request.path) : absl::StrCat("/", request.path);
  request.given_up = &given_up_;
  const absl::Time began = clock_.Now();
  S3Answer answer;
  bool renewed = false;
  for (int tries = 1;; ++tries) {
    HttpRequest one = request;
    RETURN_IF_ERROR(Sign(one));
    absl::StatusOr<HttpResponse> response = http_.Send(one);
    absl::Duration wait = absl::ZeroDuration();
    absl::Status failure = response.status();
    if (response.ok()) {
      const std::string code = response->status < 300 ? "" : ParseS3Error(response->body).code;
      if (code == "RequestTimeTooSkewed") CorrectClock(*response);
      const bool expired = code == "ExpiredToken" && !std::exchange(renewed, true);
      if (expired) keys_.Forget();
      if (!expired && !IsRetryable(response->status, code)) {
        answer.response = *std::move(response);
        return answer;
      }
      wait = RetryAfter(*response);
      failure = StatusOfAnswer(*response, absl::StrCat(request.method, " ", UrlOf(request)));
    } else if (!absl::IsUnavailable(failure)) {
      return failure;
    }
    answer.was_repeated = true;
    const auto delay = DelayBeforeRetry(retry_, tries, clock_.Now() - began, UniformRandom(), wait);
    if (!delay) return absl::UnavailableError(absl::StrCat(failure.message(), " (after ", tries, " tries)"));
    RETURN_IF_ERROR(Wait(*delay));
  }
}

}  // namespace composer
