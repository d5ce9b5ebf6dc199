// Sends requests to one bucket: signs them, retries, corrects the clock.
//
// Retried (base/retry.h) are: no answer, 408, 429, 5xx, SlowDown and the like; once more with new keys after
// ExpiredToken; with the server's time after RequestTimeTooSkewed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "net/http.h"
#include "storage/retrying_http.h"
#include "storage/s3_answers.h"
#include "storage/s3_credentials.h"

namespace composer {

// A bucket's location and dialect.
struct S3Bucket {
  std::string scheme = "s3";  // of URLs, for messages
  std::string endpoint;       // "https://s3.eu-west-1.amazonaws.com"
  std::string name;
  std::string region = "us-east-1";
  bool path_style = true;  // endpoint/bucket/key, else bucket.endpoint/key
  // How a Put is restricted to creating an object.
  enum class CreateOnly { kIfNoneMatch, kGenerationMatch } create_only = CreateOnly::kIfNoneMatch;
  std::string attempt_header = "x-amz-meta-composer-attempt";  // with a bearer token, Google takes x-goog-… only
};

using S3Answer = RepeatedAnswer;

// Thread-safe. http, keys and clock must outlive it.
class S3Requests {
 public:
  S3Requests(S3Bucket bucket, Http& http, S3KeySource& keys, Clock& clock, RetryPolicy retry = {})
      : bucket_(std::move(bucket)), keys_(keys), clock_(clock), http_(http, clock, retry) {}

  // The caller sets method, path (of the object: "a/b", or "" for the bucket), query, headers, body and into. Returns
  // OK for any answer that is not worth a retry: see StatusOfAnswer. kUnavailable when the retry budget is spent;
  // kCancelled soon after GiveUp.
  absl::StatusOr<S3Answer> Send(HttpRequest request);
  void GiveUp() { http_.GiveUp(); }
  const S3Bucket& bucket() const { return bucket_; }

 private:
  absl::Status Sign(HttpRequest& request);
  void CorrectClock(const HttpResponse& response);

  const S3Bucket bucket_;
  S3KeySource& keys_;
  Clock& clock_;
  RetryingHttp http_;
  std::atomic<int64_t> skew_seconds_{0};  // server's time - ours
};

}  // namespace composer
