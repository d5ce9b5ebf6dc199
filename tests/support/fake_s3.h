// An in-memory implementation of the S3 protocol behind the Http seam, with scripted faults.
// tests/integration/s3_test.py covers what only a real server checks (signatures, HTTP itself).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "net/http.h"

namespace composer {

class FakeS3 final : public Http {
 public:
  enum class Fault { kNone, kLostRequest, kLostAnswer, kSlowDown, kReset };
  // Called for each request with its number, from 0.
  using Script = std::function<Fault(int number, const HttpRequest& request)>;

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override;
  void set_script(Script script);
  void set_page_size(size_t keys) { page_size_ = keys; }
  void set_deletes_many(bool deletes) { deletes_many_ = deletes; }
  void set_tells_uploads(bool tells) { tells_uploads_ = tells; }
  int requests() const;
  size_t uploads_left() const;  // begun, neither completed nor aborted
  // Keys are path-style: "/bucket/key".
  std::map<std::string, std::string> objects() const;

 private:
  struct Object {
    std::string bytes;
    HttpPairs metadata;
  };
  struct Upload {
    std::string path;
    HttpPairs metadata;
    std::map<int, std::string> parts;
  };
  HttpResponse Answer(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpResponse Get(const HttpRequest& request, const Object& object);
  HttpResponse List(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpResponse DeleteMany(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpResponse ListUploads(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpResponse Store(const HttpRequest& request, Object object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpResponse Complete(const HttpRequest& request, const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<std::string, Object> objects_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Upload> uploads_ ABSL_GUARDED_BY(mutex_);
  Script script_ ABSL_GUARDED_BY(mutex_);
  int requests_ ABSL_GUARDED_BY(mutex_) = 0;
  int uploads_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t page_size_ = 1000;
  bool tells_uploads_ = true;
  bool deletes_many_ = true;
};

}  // namespace composer
