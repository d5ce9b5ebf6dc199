// Where the keys for S3 come from, in the order that AWS's own tools use:
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
#include "storage/http.h"
#include "storage/sigv4.h"

namespace composer {

struct S3Credentials {
  SigningKey key;
  absl::Time expires = absl::InfiniteFuture();
  std::string origin;  // for messages: "environment", "profile default of /root/.aws/credentials", …
};

// One look through the sources. kPermissionDenied, naming what was tried, when none has keys; kUnavailable or the
// server's error when a source is set up and fails.
absl::StatusOr<S3Credentials> FindS3Credentials(const Environment& env, Http& http, absl::Time now);

// Keys that are fetched again five minutes before they expire. Threads: any.
class S3KeySource {
 public:
  using Fetch = std::function<absl::StatusOr<S3Credentials>()>;
  S3KeySource(Fetch fetch, const Clock& clock) : fetch_(std::move(fetch)), clock_(clock) {}

  absl::StatusOr<SigningKey> Get();
  // The server refused them: fetch anew at the next Get.
  void Forget();

 private:
  const Fetch fetch_;
  const Clock& clock_;
  absl::Mutex mutex_;
  bool known_ ABSL_GUARDED_BY(mutex_) = false;
  S3Credentials credentials_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
