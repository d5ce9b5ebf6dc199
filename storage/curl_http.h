// Http over libcurl: one connection a request under way, kept for the next ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "storage/http.h"

namespace composer {

class CurlHttp final : public Http {
 public:
  CurlHttp();
  ~CurlHttp() override;
  CurlHttp(const CurlHttp&) = delete;
  CurlHttp& operator=(const CurlHttp&) = delete;

  // A connection must stand within 10 s, and an answer that stalls (below 1 KB/s for 60 s) is given up.
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override;

 private:
  struct Handle;
  std::unique_ptr<Handle> Take();
  void Return(std::unique_ptr<Handle> handle);

  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Handle>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
