// Sends requests to one bucket: signs, retries, keeps the clock right.
//
// Sent again (base/retry.h): no answer, 408, 429, 5xx, SlowDown and its like; once more with new keys after
// ExpiredToken; with the server's time after RequestTimeTooSkewed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/retry.h"
#include "storage/http.h"
#include "storage/s3_answers.h"
#include "storage/s3_credentials.h"

namespace composer {

// Where a bucket is, and which dialect it speaks.
struct S3Bucket {
  std::string scheme = "s3";  // of URLs, for people
  std::string endpoint;       // "https://s3.eu-west-1.amazonaws.com"
  std::string name;
  std::string region = "us-east-1";
  bool path_style = true;  // endpoint/bucket/key, else bucket.endpoint/key
  // How a Put is made to create only.
  enum class CreateOnly { kIfNoneMatch, kGenerationMatch } create_only = CreateOnly::kIfNoneMatch;
};

struct S3Answer {
  HttpResponse response;
  bool was_repeated = false;  // an earlier try had no answer or a server error: it may have been carried out
};

// Threads: any. http, keys and clock outlive it.
class S3Requests {
 public:
  S3Requests(S3Bucket bucket, Http& http, S3KeySource& keys, Clock& clock, RetryPolicy retry = {})
      : bucket_(std::move(bucket)), http_(http), keys_(keys), clock_(clock), retry_(retry) {}

  // method, path (of the object: "a/b", or "" for the bucket), query, headers, body and into are the caller's. Any
  // answer that is not worth a retry is OK: see StatusOfAnswer. kUnavailable when the budget is spent; kCancelled soon
  // after GiveUp.
  absl::StatusOr<S3Answer> Send(HttpRequest request);
  void GiveUp() { given_up_ = true; }
  const S3Bucket& bucket() const { return bucket_; }

 private:
  absl::Status Sign(HttpRequest& request);
  void CorrectClock(const HttpResponse& response);
  absl::Status Wait(absl::Duration delay);

  const S3Bucket bucket_;
  Http& http_;
  S3KeySource& keys_;
  Clock& clock_;
  const RetryPolicy retry_;
  std::atomic<int64_t> skew_seconds_{0};  // server's time - ours
  std::atomic<bool> given_up_{false};
};

}  // namespace composer
