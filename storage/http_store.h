// Files below a URL of a web server, to read only: data sets, published weights and checkpoints. There is no list, so
// that a checkpoint is named and not searched for. The server must answer HEAD with the size, and ranges of bytes
// (nginx, caddy, object storage; not Python's http.server, from which only whole files can be read). Redirects are
// followed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "storage/object_store.h"
#include "storage/retrying_http.h"

namespace composer {

class HttpStore final : public ObjectStore {
 public:
  struct Options {
    std::string origin;  // "https://example.com:8443"
    std::string prefix;  // "data/train", or ""
    RetryPolicy retry;
  };
  // http and clock must outlive the store.
  HttpStore(Options options, Http& http, Clock& clock)
      : options_(std::move(options)), http_(http, clock, options_.retry) {}

  // These four are refused: kPermissionDenied.
  absl::Status Put(const std::string& key, Pieces pieces) override;
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override;
  absl::Status Delete(const std::string& key) override;
  absl::Status DeleteTree(const std::string& folder) override;

  absl::StatusOr<int64_t> Size(const std::string& key) override;
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;  // kUnimplemented
  void GiveUp() override { http_.GiveUp(); }
  std::string Location(const std::string& key) const override;

 private:
  absl::Status ReadOnly(const std::string& key) const;
  absl::StatusOr<HttpResponse> Ask(const char* method, const std::string& key, HttpRequest request);

  const Options options_;
  RetryingHttp http_;
};

}  // namespace composer
