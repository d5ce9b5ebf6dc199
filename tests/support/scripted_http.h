// An Http whose answers come from a function, with scripted faults: what FakeAzure and FakeVolume have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "net/http.h"

namespace composer {

class ScriptedHttp : public Http {
 public:
  enum class Fault { kNone, kLostRequest, kLostAnswer, kBusy };
  using Script = std::function<Fault(int number)>;

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    const absl::MutexLock lock(&mutex_);
    const Fault fault = script_ ? script_(requests_) : Fault::kNone;
    ++requests_;
    if (fault == Fault::kLostRequest) return absl::UnavailableError("connection reset (injected)");
    if (fault == Fault::kBusy) return HttpResponse{503, {}, "busy"};
    HttpResponse response = Answer(request);
    if (fault == Fault::kLostAnswer) return absl::UnavailableError("the connection broke (injected)");
    if (request.method == "HEAD") response.body.clear();
    if (!request.into.empty() && (response.status == 200 || response.status == 206)) {
      if (response.body.size() != request.into.size()) return absl::OutOfRangeError("an answer of another length");
      std::memcpy(request.into.data(), response.body.data(), response.body.size());
      response.body.clear();
    }
    return response;
  }
  void set_script(Script script) {
    const absl::MutexLock lock(&mutex_);
    script_ = std::move(script);
    requests_ = 0;
  }
  int requests() const {
    const absl::MutexLock lock(&mutex_);
    return requests_;
  }
  std::map<std::string, std::string> objects() const {
    const absl::MutexLock lock(&mutex_);
    return objects_;
  }

 protected:
  virtual HttpResponse Answer(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  static std::string Value(const HttpPairs& pairs, absl::string_view name) {
    for (const auto& [key, value] : pairs) {
      if (key == name) return value;
    }
    return "";
  }
  static std::string BodyOf(const HttpRequest& request) {
    std::string text;
    for (const absl::string_view piece : request.body) text.append(piece.begin(), piece.end());
    return text;
  }
  // A whole object, or the range of it that was asked for; HEAD's size, too.
  static HttpResponse Part(const HttpRequest& request, const std::string& bytes) {
    HttpResponse response{200, {{"content-length", absl::StrCat(bytes.size())}}, bytes};
    long long from = 0, to = 0;
    if (std::sscanf(Value(request.headers, "range").c_str(), "bytes=%lld-%lld", &from, &to) != 2) return response;
    if (from >= static_cast<long long>(bytes.size())) return {416, {}, ""};
    return {206, {}, bytes.substr(static_cast<size_t>(from), static_cast<size_t>(to - from + 1))};
  }

  mutable absl::Mutex mutex_;
  std::map<std::string, std::string> objects_ ABSL_GUARDED_BY(mutex_);  // by the path of the URL

 private:
  Script script_ ABSL_GUARDED_BY(mutex_);
  int requests_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace composer
