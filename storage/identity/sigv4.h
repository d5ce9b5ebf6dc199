// AWS Signature Version 4 for S3 and compatible services (GCS's XML interface with HMAC keys, OCI, MinIO, …). Pure.
// Source: docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/time/time.h"
#include "net/http.h"

namespace composer {

struct SigningKey {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // "": none
  std::string bearer_token;   // of Google; shown as it is, in place of a signature
};

struct SigningScope {
  std::string region = "us-east-1";
  std::string service = "s3";
};

inline constexpr char kUnsignedPayload[] = "UNSIGNED-PAYLOAD";

// Returns the hexadecimal SHA-256 of all pieces.
std::string Sha256Hex(absl::Span<const absl::string_view> pieces);

// Adds x-amz-date, x-amz-content-sha256, x-amz-security-token and authorization to the request's headers. All headers
// present at that point are signed, so none may be added or changed later. payload_hash: Sha256Hex of the body, or
// kUnsignedPayload (over TLS only).
void SignRequest(const SigningKey& key, const SigningScope& scope, absl::Time now, const std::string& payload_hash,
                 HttpRequest& request);

}  // namespace composer
