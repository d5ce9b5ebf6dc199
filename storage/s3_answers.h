// What S3 answers in XML. Pure; the text is hostile: sizes are bounded, and what is missing is an error.
// Source: docs.aws.amazon.com/AmazonS3/latest/API (ListObjectsV2, ListMultipartUploads, CreateMultipartUpload, DeleteObjects, Error).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/http.h"

namespace composer {

struct S3Page {
  std::vector<std::string> keys;  // whole keys of the bucket
  std::string next;               // continuation token; "": that was the last page
};
absl::StatusOr<S3Page> ParseS3List(absl::string_view xml);
absl::StatusOr<std::string> ParseS3UploadId(absl::string_view xml);

// Uploads in parts that were begun and neither completed nor aborted.
struct S3Upload {
  std::string key;
  std::string id;
};
struct S3UploadsPage {
  std::vector<S3Upload> uploads;
  std::string next_key, next_id;  // markers; next_key "": that was the last page
};
absl::StatusOr<S3UploadsPage> ParseS3Uploads(absl::string_view xml);

// What "delete these" did not do, as "key: code: message"; "": all are gone.
absl::StatusOr<std::string> ParseS3DeleteErrors(absl::string_view xml);

struct S3Error {
  std::string code;  // "NoSuchKey", "SlowDown", …; "" when the body says none
  std::string message;
};
// Of an answer's body, which need not be XML.
S3Error ParseS3Error(absl::string_view body);

// Is it worth while to send the request again? By status and code.
bool IsRetryable(int status, absl::string_view code);

// The status for an answer that is no success: 404 kNotFound, 403 and 401 kPermissionDenied, 412 kAlreadyExists (of a
// create-only request), 416 kOutOfRange, 400 kInvalidArgument, retryable ones kUnavailable, else kInternal.
absl::Status StatusOfAnswer(const HttpResponse& response, absl::string_view what);

}  // namespace composer
