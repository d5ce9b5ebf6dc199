// Parses what S3 answers in XML. Pure; the text is hostile: sizes are bounded, and a missing element is an error.
// Source: docs.aws.amazon.com/AmazonS3/latest/API (ListObjectsV2, ListMultipartUploads, CreateMultipartUpload,
// DeleteObjects, Error).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "net/http.h"

namespace composer {

struct S3Page {
  std::vector<std::string> keys;  // full keys within the bucket
  std::string next;               // continuation token; "": this was the last page
};
absl::StatusOr<S3Page> ParseS3List(absl::string_view xml);
absl::StatusOr<std::string> ParseS3UploadId(absl::string_view xml);

// A multipart upload that was begun and neither completed nor aborted.
struct S3Upload {
  std::string key;
  std::string id;
};
struct S3UploadsPage {
  std::vector<S3Upload> uploads;
  std::string next_key, next_id;  // markers; next_key "": this was the last page
};
absl::StatusOr<S3UploadsPage> ParseS3Uploads(absl::string_view xml);

// Returns what a multi-object delete failed to delete, as "key: code: message"; "" when all are gone.
absl::StatusOr<std::string> ParseS3DeleteErrors(absl::string_view xml);

struct S3Error {
  std::string code;  // "NoSuchKey", "SlowDown", …; "" when the body has none
  std::string message;
};
// Parses an answer's body, which need not be XML.
S3Error ParseS3Error(absl::string_view body);

// Returns whether it is worth sending the request again, by status and code.
bool IsRetryable(int status, absl::string_view code);

// Returns the status for an answer that is not a success: 404 kNotFound, 403 and 401 kPermissionDenied, 412
// kAlreadyExists (of a create-only request), 416 kOutOfRange, 400 kInvalidArgument, retryable ones kUnavailable, else
// kInternal.
absl::Status StatusOfAnswer(const HttpResponse& response, absl::string_view what);

}  // namespace composer
