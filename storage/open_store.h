// Opens the store that a place names:
//   a path, file:///path     LocalStore
//   s3://bucket/prefix       S3; S3_ENDPOINT_URL, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL for another server
//   gs://bucket/prefix       Google's, with HMAC keys: GCS_KEY, GCS_SECRET
//   oci://bucket@namespace/prefix   Oracle's, with customer secret keys: OCI_KEY, OCI_SECRET, OCI_REGION
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/env.h"
#include "storage/object_store.h"

namespace composer {

// kInvalidArgument, naming what is allowed, for an invalid place. Sends nothing to the server yet; keys are looked up
// at the first request. Copies `env`.
absl::StatusOr<std::shared_ptr<ObjectStore>> OpenStore(const std::string& place, const Environment& env);

}  // namespace composer
