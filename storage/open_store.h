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

// kInvalidArgument for a place that is none, naming what is allowed. Nothing is asked of the server yet; keys are looked
// for at the first request. env is copied.
absl::StatusOr<std::shared_ptr<ObjectStore>> OpenStore(const std::string& place, const Environment& env);

}  // namespace composer
