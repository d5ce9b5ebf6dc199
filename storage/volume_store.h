// Files in a volume of Databricks' Unity Catalog, below a folder (dbfs:/Volumes/catalog/schema/volume/…), by the Files
// API. A file is sent in one request, of 5 GiB at most, and PutIfAbsent is overwrite=false. When one try got no answer
// and the next one finds a file, the file is read to see whether it is our own.
// Source: docs.databricks.com/api/workspace/files. Not tried against the real service: tests/support/fake_volume.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "storage/object_store.h"
#include "storage/retrying_http.h"

namespace composer {

class VolumeStore final : public ObjectStore {
 public:
  struct Options {
    std::string host;    // "https://dbc-a1b2.cloud.databricks.com"
    std::string token;   // a personal access token
    std::string folder;  // "/Volumes/main/default/runs/mine"
    RetryPolicy retry;
  };
  // http and clock must outlive the store.
  VolumeStore(Options options, Http& http, Clock& clock)
      : options_(std::move(options)), http_(http, clock, options_.retry) {}

  absl::Status Put(const std::string& key, Pieces pieces) override { return Write(key, pieces, true); }
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override { return Write(key, pieces, false); }
  absl::StatusOr<int64_t> Size(const std::string& key) override;
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status Delete(const std::string& key) override;
  absl::Status DeleteTree(const std::string& folder) override;
  void GiveUp() override { http_.GiveUp(); }
  std::string Location(const std::string& key) const override;

 private:
  absl::Status Write(const std::string& key, Pieces pieces, bool replace);
  // Adds what lies in a folder of the volume; its folders to `deeper`.
  absl::Status ListOne(const std::string& folder, std::vector<std::string>& keys, std::vector<std::string>& deeper);
  // what: "files" or "directories".
  absl::StatusOr<RepeatedAnswer> Ask(const char* method, const char* what, const std::string& key, HttpRequest request);

  const Options options_;
  RetryingHttp http_;
};

}  // namespace composer
