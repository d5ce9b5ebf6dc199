// Http over libcurl: one connection per request in flight, kept for later requests. A machine without libcurl answers
// every request with kUnimplemented.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "net/http.h"

namespace composer {

class CurlHttp final : public Http {
 public:
  CurlHttp();
  ~CurlHttp() override;
  CurlHttp(const CurlHttp&) = delete;
  CurlHttp& operator=(const CurlHttp&) = delete;

  // Gives up when a connection is not established within 10 s, or when an answer stalls (below 1 KB/s for 60 s).
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override;

 private:
  struct Handle;
  std::unique_ptr<Handle> Take();
  void Return(std::unique_ptr<Handle> handle);

  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Handle>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
