// Objects in a bucket of S3 or a compatible service, below a prefix. Objects larger than kPartBytes are uploaded in
// parts, several at once; they become visible only when the last call has succeeded. Until then List shows the upload
// as a leftover (`a/.put-b` of `a/b`), so that what a dead process left is found, and Delete aborts it. Where listing
// uploads is not allowed (s3:ListBucketMultipartUploads) or not supported, the bucket's lifecycle rule removes them
// (AbortIncompleteMultipartUpload).
//
// PutIfAbsent is If-None-Match: * (GCS: x-goog-if-generation-match: 0). When one try got no answer and the next one
// finds an object, the object's metadata shows whether it is our own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "storage/object_store.h"
#include "storage/s3_requests.h"

namespace composer {

class S3Store final : public ObjectStore {
 public:
  // S3 allows parts of 5 MiB to 5 GiB, up to 10,000 of them.
  static constexpr int64_t kPartBytes = int64_t{64} << 20;

  struct Options {
    S3Bucket bucket;
    std::string prefix;  // "runs/mine", or ""
    RetryPolicy retry;
    int64_t part_bytes = kPartBytes;
    int max_parallel_parts = 4;
  };
  // http and clock must outlive the store.
  S3Store(Options options, Http& http, std::shared_ptr<S3KeySource> keys, Clock& clock);

  absl::Status Put(const std::string& key, Pieces pieces) override;
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override;
  absl::StatusOr<int64_t> Size(const std::string& key) override;
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status Delete(const std::string& key) override;
  absl::Status DeleteTree(const std::string& folder) override;
  void GiveUp() override { requests_.GiveUp(); }
  std::string Location(const std::string& key) const override;

 private:
  enum class IfPresent { kReplace, kFail };
  absl::Status Write(const std::string& key, Pieces pieces, IfPresent if_present);
  absl::Status WriteWhole(const std::string& key, Pieces pieces, IfPresent if_present, const std::string& attempt);
  absl::Status WriteInParts(const std::string& key, Pieces pieces, int64_t size, IfPresent if_present,
                            const std::string& attempt);
  absl::StatusOr<std::string> UploadParts(const std::string& key, Pieces pieces, int64_t size, const std::string& id);
  absl::Status CompleteUpload(const std::string& key, const std::string& id, const std::string& parts,
                              IfPresent if_present, const std::string& attempt);
  // Returns whether this attempt wrote the object.
  absl::StatusOr<bool> IsOwn(const std::string& key, const std::string& attempt);
  // Returns unfinished uploads of keys with this prefix; none where the server does not list them.
  std::vector<S3Upload> Uploads(const std::string& name_prefix);
  absl::Status Abort(const std::string& key, const std::string& id);
  absl::Status AbortUploads(const std::string& key);
  // Uses one request per thousand keys. kUnimplemented where the server does not support it (GCS).
  absl::Status DeleteMany(absl::Span<const std::string> keys);
  std::string NamePrefix() const;  // of all objects: "runs/mine/" or ""
  void AddCondition(IfPresent if_present, HttpRequest& request) const;
  // Sends a request about `key` and turns an unsuccessful answer into an error.
  absl::StatusOr<S3Answer> Ask(const char* method, const std::string& key, HttpRequest request);
  std::string ObjectName(const std::string& key) const;

  const Options options_;
  std::shared_ptr<S3KeySource> keys_;
  S3Requests requests_;
  std::atomic<bool> tells_uploads_{true};
  std::atomic<bool> deletes_many_{true};
};

}  // namespace composer
