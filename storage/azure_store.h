// Objects in a container of Azure Blob Storage, below a prefix. Objects larger than kPartBytes are uploaded in blocks,
// which become a blob with the last call; Azure itself removes blocks that never became one, after a week.
//
// PutIfAbsent is If-None-Match: *. When one try got no answer and the next one finds a blob, the blob's metadata shows
// whether it is our own.
// Source: learn.microsoft.com/rest/api/storageservices (Put Blob, Put Block, Put Block List, Get Blob, List Blobs).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "storage/identity/azure_signature.h"
#include "storage/object_store.h"
#include "storage/retrying_http.h"

namespace composer {

class AzureStore final : public ObjectStore {
 public:
  static constexpr int64_t kPartBytes = int64_t{64} << 20;

  struct Options {
    std::string endpoint;  // "https://account.blob.core.windows.net", of an emulator with "/account"
    std::string container;
    std::string prefix;  // "runs/mine", or ""
    AzureCredentials credentials;
    RetryPolicy retry;
    int64_t part_bytes = kPartBytes;
  };
  // http and clock must outlive the store.
  AzureStore(Options options, Http& http, Clock& clock)
      : options_(std::move(options)), clock_(clock), http_(http, clock, options_.retry) {}

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
  absl::Status Write(const std::string& key, Pieces pieces, bool create_only);
  // Uploads the pieces as blocks; returns the list that makes a blob of them.
  absl::StatusOr<std::string> UploadBlocks(const std::string& key, Pieces pieces, const std::string& attempt);
  // Sends a request about `name`, of the container with "", and turns an unsuccessful answer into an error.
  absl::StatusOr<RepeatedAnswer> Ask(const char* method, const std::string& name, HttpRequest request);
  std::string BlobName(const std::string& key) const;

  const Options options_;
  Clock& clock_;
  RetryingHttp http_;
};

}  // namespace composer
