// Finds the keys for S3, in the same order as AWS's own tools:
//   1 environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   2 web identity: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN -> STS AssumeRoleWithWebIdentity (Kubernetes: IRSA)
//   3 files: ~/.aws/credentials and ~/.aws/config, profile AWS_PROFILE
//   4 container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI (ECS, EKS Pod Identity)
//   5 the instance's role: IMDSv2, unless AWS_EC2_METADATA_DISABLED
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/env.h"
#include "net/http.h"
#include "storage/identity/sigv4.h"

namespace composer {

struct S3Credentials {
  SigningKey key;
  absl::Time expires = absl::InfiniteFuture();
  std::string origin;  // for messages: "environment", "profile default of /root/.aws/credentials", …
};

// Goes through the sources once. kPermissionDenied, naming what was tried, when none has keys; kUnavailable or the
// server's error when a source is set up and fails.
absl::StatusOr<S3Credentials> FindS3Credentials(const Environment& env, Http& http, absl::Time now);

// Caches keys and fetches them again five minutes before they expire. Thread-safe.
class S3KeySource {
 public:
  using Fetch = std::function<absl::StatusOr<S3Credentials>()>;
  S3KeySource(Fetch fetch, const Clock& clock) : fetch_(std::move(fetch)), clock_(clock) {}

  absl::StatusOr<SigningKey> Get();
  // Discards keys that the server refused; the next Get fetches new ones.
  void Forget();

 private:
  const Fetch fetch_;
  const Clock& clock_;
  absl::Mutex mutex_;
  bool known_ ABSL_GUARDED_BY(mutex_) = false;
  S3Credentials credentials_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
