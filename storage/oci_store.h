// Objects in a bucket of Oracle Cloud's Object Storage, below a prefix, by Oracle's own API and the user's RSA key
// (s3_store.h speaks its S3-compatible one). Objects larger than kPartBytes are uploaded in parts; an upload that
// nobody ended is listed as a leftover (object_store.h), and Delete aborts it.
//
// PutIfAbsent is If-None-Match: *. When one try got no answer and the next one finds an object, the object's metadata
// shows whether it is our own.
// Source: docs.oracle.com/iaas/api/#/en/objectstorage (PutObject, GetObject, HeadObject, ListObjects,
// CreateMultipartUpload, UploadPart, CommitMultipartUpload, ListMultipartUploads, GetNamespace).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "storage/identity/oci_signature.h"
#include "storage/object_store.h"
#include "storage/retrying_http.h"

namespace composer {

class OciStore final : public ObjectStore {
 public:
  static constexpr int64_t kPartBytes = int64_t{64} << 20;

  struct Options {
    std::string endpoint;          // "https://objectstorage.us-ashburn-1.oraclecloud.com"
    std::string bucket_namespace;  // of the tenancy's buckets; "": asked for at the first request
    std::string bucket;
    std::string prefix;  // "runs/mine", or ""
    OciCredentials credentials;
    RetryPolicy retry;
    int64_t part_bytes = kPartBytes;
    int64_t most_parts = 10'000;  // of an object; Oracle's limit
  };
  // http and clock must outlive the store.
  OciStore(Options options, Http& http, Clock& clock)
      : options_(std::move(options)),
        clock_(clock),
        http_(http, clock, options_.retry),
        namespace_(options_.bucket_namespace) {}

  absl::Status Put(const std::string& key, Pieces pieces) override { return Write(key, pieces, false); }
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override { return Write(key, pieces, true); }
  absl::StatusOr<int64_t> Size(const std::string& key) override;
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status Delete(const std::string& key) override;
  absl::Status DeleteTree(const std::string& folder) override;
  void GiveUp() override { http_.GiveUp(); }
  std::string Location(const std::string& key) const override;

 private:
  struct Upload {
    std::string object, id;
  };
  absl::Status Write(const std::string& key, Pieces pieces, bool create_only);
  absl::Status WriteInParts(const std::string& object, Pieces pieces, bool create_only, const std::string& attempt);
  // Returns the JSON text that makes an object of the parts.
  absl::StatusOr<std::string> UploadParts(const std::string& object, Pieces pieces, const std::string& id);
  absl::StatusOr<std::vector<Upload>> Uploads();
  absl::Status Abort(const Upload& upload);
  // Sends a request about `what` of the bucket, "o/NAME" or "u", and turns an unsuccessful answer into an error.
  absl::StatusOr<RepeatedAnswer> Ask(const char* method, const std::string& what, HttpRequest request);
  absl::StatusOr<RepeatedAnswer> Send(HttpRequest request, const std::string& where);
  // `where`: what it is asked for, for errors.
  absl::StatusOr<std::string> Namespace(const std::string& where);
  std::string ObjectName(const std::string& key) const;

  const Options options_;
  Clock& clock_;
  RetryingHttp http_;
  absl::Mutex mutex_;
  std::string namespace_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
