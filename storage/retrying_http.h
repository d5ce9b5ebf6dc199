// Sends requests to a server that may be away for a while: waits and tries again (base/retry.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/retry.h"
#include "net/http.h"

namespace composer {

struct RepeatedAnswer {
  HttpResponse response;
  bool was_repeated = false;  // an earlier try had no answer or a server error, so it may have been carried out
};

// Thread-safe. http and clock must outlive it.
class RetryingHttp {
 public:
  RetryingHttp(Http& http, Clock& clock, RetryPolicy retry) : http_(http), clock_(clock), retry_(retry) {}

  // Adds to a request what each try needs of its own: a signature with the time.
  using Prepare = std::function<absl::Status(HttpRequest& one_try)>;
  // OK: the answer is the caller's. Else it is worth another try, and this is the error when there is none.
  using Judge = std::function<absl::Status(const HttpResponse& response)>;
  // kUnavailable when the retry budget is spent; kCancelled soon after GiveUp. A request without an answer is tried
  // again. A server's Retry-After is kept to.
  absl::StatusOr<RepeatedAnswer> Send(HttpRequest request, const Prepare& prepare, const Judge& judge);
  void GiveUp() { given_up_ = true; }

 private:
  absl::Status Wait(absl::Duration delay);

  Http& http_;
  Clock& clock_;
  const RetryPolicy retry_;
  std::atomic<bool> given_up_{false};
};

}  // namespace composer
