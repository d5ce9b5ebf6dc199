// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/metadata_http.h"

#define CURL_DISABLE_TYPECHECK  // its macros would call the functions by name
#include <curl/curl.h>
#include <dlfcn.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr long kTimeoutMillis = 1000;

struct Curl {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) init;
  decltype(&::curl_easy_setopt) setopt;
  decltype(&::curl_easy_perform) perform;
  decltype(&::curl_easy_getinfo) getinfo;
  decltype(&::curl_easy_cleanup) cleanup;
  decltype(&::curl_easy_strerror) strerror;
  decltype(&::curl_slist_append) append;
  decltype(&::curl_slist_free_all) free_all;
};

template <typename F>
bool Load(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

absl::StatusOr<Curl> LoadCurl() {
  void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnimplementedError(absl::StrCat("--preemption needs libcurl (Debian: libcurl4): ", dlerror()));
  }
  Curl curl;
  const bool all =
      Load(library, "curl_global_init", &curl.global_init) && Load(library, "curl_easy_init", &curl.init) &&
      Load(library, "curl_easy_setopt", &curl.setopt) && Load(library, "curl_easy_perform", &curl.perform) &&
      Load(library, "curl_easy_getinfo", &curl.getinfo) && Load(library, "curl_easy_cleanup", &curl.cleanup) &&
      Load(library, "curl_easy_strerror", &curl.strerror) && Load(library, "curl_slist_append", &curl.append) &&
      Load(library, "curl_slist_free_all", &curl.free_all);
  if (!all || curl.global_init(CURL_GLOBAL_NOTHING) != CURLE_OK) {
    return absl::UnimplementedError("--preemption: the libcurl of this machine cannot be used");
  }
  return curl;
}

size_t Append(char* data, size_t size, size_t count, void* target) {
  std::string& body = *static_cast<std::string*>(target);
  if (body.size() + size * count > kMaxNoticeBytes) return 0;  // makes the transfer fail
  body.append(data, size * count);
  return size * count;
}

}  // namespace

absl::StatusOr<HttpReply> FetchMetadata(const MetadataRequest& request) {
  static const absl::StatusOr<Curl>& loaded = *new absl::StatusOr<Curl>(LoadCurl());
  if (!loaded.ok()) return loaded.status();
  const Curl& curl = *loaded;
  CURL* handle = curl.init();
  if (handle == nullptr) return absl::UnavailableError("libcurl is out of memory");
  curl_slist* headers = curl.append(nullptr, "Expect:");  // avoids a round trip before a body
  for (const std::string& header : request.headers) headers = curl.append(headers, header.c_str());
  const absl::Cleanup free_all = [&] {
    curl.free_all(headers);
    curl.cleanup(handle);
  };
  HttpReply reply;
  curl.setopt(handle, CURLOPT_URL, request.url.c_str());
  curl.setopt(handle, CURLOPT_HTTPHEADER, headers);
  curl.setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.method == "POST") {
    curl.setopt(handle, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.body.size()));
    curl.setopt(handle, CURLOPT_POSTFIELDS, request.body.c_str());
  }
  curl.setopt(handle, CURLOPT_PROTOCOLS_STR, "http");
  curl.setopt(handle, CURLOPT_PROXY, "");
  curl.setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl.setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl.setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, kTimeoutMillis);
  curl.setopt(handle, CURLOPT_TIMEOUT_MS, kTimeoutMillis);
  curl.setopt(handle, CURLOPT_WRITEFUNCTION, &Append);
  curl.setopt(handle, CURLOPT_WRITEDATA, &reply.body);
  if (const CURLcode code = curl.perform(handle); code != CURLE_OK) {
    return absl::UnavailableError(absl::StrCat(request.method, " ", request.url, ": ", curl.strerror(code)));
  }
  long code = 0;
  curl.getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
  reply.code = static_cast<int>(code);
  return reply;
}

}  // namespace composer
