// SPDX-License-Identifier: Apache-2.0
#include "net/curl_http.h"

#define CURL_DISABLE_TYPECHECK  // its macros would call the functions by name
#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr size_t kMaxHeaders = 200;

// What is used of libcurl. It is loaded at the first request and not linked, because the 25 libraries that it brings
// would cost every start of the launcher several milliseconds.
struct CurlLibrary {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) init;
  decltype(&::curl_easy_reset) reset;
  decltype(&::curl_easy_setopt) setopt;
  decltype(&::curl_easy_perform) perform;
  decltype(&::curl_easy_getinfo) getinfo;
  decltype(&::curl_easy_cleanup) cleanup;
  decltype(&::curl_easy_strerror) strerror;
  decltype(&::curl_slist_append) append;
  decltype(&::curl_slist_free_all) free_all;
  absl::Status loaded;
};

CurlLibrary LoadCurl() {
  CurlLibrary curl;
  void* const library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    curl.loaded = absl::UnimplementedError(absl::StrCat("HTTP needs libcurl (Debian: libcurl4): ", dlerror()));
    return curl;
  }
  const auto load = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  const bool all = load("curl_global_init", curl.global_init) && load("curl_easy_init", curl.init) &&
                   load("curl_easy_reset", curl.reset) && load("curl_easy_setopt", curl.setopt) &&
                   load("curl_easy_perform", curl.perform) && load("curl_easy_getinfo", curl.getinfo) &&
                   load("curl_easy_cleanup", curl.cleanup) && load("curl_easy_strerror", curl.strerror) &&
                   load("curl_slist_append", curl.append) && load("curl_slist_free_all", curl.free_all);
  if (!all || curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    curl.loaded = absl::UnimplementedError("the libcurl of this machine cannot be used");
  return curl;
}

const CurlLibrary& Curl() {
  static const CurlLibrary& library = *new CurlLibrary(LoadCurl());
  return library;
}

// What a request in flight has sent and received. An answer may consist of several ("100 Continue" and a redirect that
// is followed are answers, too): each status line starts over.
struct Transfer {
  const HttpRequest* request = nullptr;
  size_t piece = 0, offset = 0;  // in the body, next to be sent
  HttpResponse response;
  size_t filled = 0;       // bytes of request->into
  bool too_long = false;   // more than request->into holds
  bool too_large = false;  // more than max_body_bytes
  CURL* handle = nullptr;

  long Status() const {
    long status = 0;
    Curl().getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
};

size_t ReadBody(char* to, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const auto& body = transfer.request->body;
  size_t copied = 0;
  while (copied < size * count && transfer.piece < body.size()) {
    const absl::string_view left = body[transfer.piece].substr(transfer.offset);
    const size_t take = std::min(left.size(), size * count - copied);
    std::memcpy(to + copied, left.data(), take);
    copied += take;
    transfer.offset += take;
    if (transfer.offset == body[transfer.piece].size()) ++transfer.piece, transfer.offset = 0;
  }
  return copied;
}

int RewindBody(void* user, curl_off_t offset, int origin) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (offset != 0 || origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  transfer.piece = transfer.offset = 0;
  return CURL_SEEKFUNC_OK;
}

size_t TakeHeader(char* text, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const absl::string_view line(text, size * count);
  if (absl::StartsWith(line, "HTTP/")) {
    transfer.response.headers.clear();
    return size * count;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos || transfer.response.headers.size() >= kMaxHeaders) return size * count;
  transfer.response.headers.emplace_back(absl::AsciiStrToLower(line.substr(0, colon)),
                                         std::string(absl::StripAsciiWhitespace(line.substr(colon + 1))));
  return size * count;
}

size_t TakeBody(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  const long status = transfer.Status();
  if (!transfer.request->into.empty() && (status == 200 || status == 206)) {
    if (transfer.filled + bytes > transfer.request->into.size()) {
      transfer.too_long = true;
      return 0;
    }
    std::memcpy(transfer.request->into.data() + transfer.filled, data, bytes);
    transfer.filled += bytes;
    return bytes;
  }
  if (transfer.response.body.size() + bytes > static_cast<size_t>(transfer.request->max_body_bytes)) {
    transfer.too_large = true;
    return 0;
  }
  transfer.response.body.append(data, bytes);
  return bytes;
}

// Called about once a second, and more often while bytes move.
int AbortIfGivenUp(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* const given_up = static_cast<Transfer*>(user)->request->given_up;
  return given_up != nullptr && *given_up ? 1 : 0;
}

using HeaderList = std::unique_ptr<curl_slist, decltype(&::curl_slist_free_all)>;

HeaderList HeadersOf(const HttpRequest& request) {
  curl_slist* list = nullptr;
  for (const auto& [name, value] : request.headers)
    list = Curl().append(list, absl::StrCat(name, value.empty() ? ";" : ": ", value).c_str());
  list = Curl().append(list, "expect:");  // no "100 Continue": saves a round trip
  return {list, Curl().free_all};
}

void SetMethod(CURL* curl, const HttpRequest& request, Transfer& transfer) {
  if (request.method == "HEAD") {
    Curl().setopt(curl, CURLOPT_NOBODY, 1L);
    return;
  }
  if (request.method == "PUT" || request.method == "POST") {
    Curl().setopt(curl, CURLOPT_UPLOAD, 1L);
    Curl().setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(BodySize(request)));
    Curl().setopt(curl, CURLOPT_READFUNCTION, ReadBody);
    Curl().setopt(curl, CURLOPT_READDATA, &transfer);
    Curl().setopt(curl, CURLOPT_SEEKFUNCTION, RewindBody);
    Curl().setopt(curl, CURLOPT_SEEKDATA, &transfer);
  }
  Curl().setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

void SetLimits(CURL* curl, const HttpRequest& request) {
  Curl().setopt(curl, CURLOPT_NOSIGNAL, 1L);  // required with threads
  const long timeout = static_cast<long>(absl::ToInt64Milliseconds(request.timeout));
  Curl().setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, std::min(timeout, 10'000L));
  Curl().setopt(curl, CURLOPT_TIMEOUT_MS, timeout);
  if (!request.use_proxy) Curl().setopt(curl, CURLOPT_PROXY, "");
  Curl().setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1024L);
  Curl().setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
  Curl().setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  Curl().setopt(curl, CURLOPT_FOLLOWLOCATION, request.follow_redirects ? 1L : 0L);
  Curl().setopt(curl, CURLOPT_MAXREDIRS, 5L);
  Curl().setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  Curl().setopt(curl, CURLOPT_BUFFERSIZE, 512L << 10);
  Curl().setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
  Curl().setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
}

}  // namespace

struct CurlHttp::Handle {
  Handle() : curl(Curl().init()) {}
  ~Handle() { Curl().cleanup(curl); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  CURL* curl;
};

CurlHttp::CurlHttp() = default;
CurlHttp::~CurlHttp() = default;

std::unique_ptr<CurlHttp::Handle> CurlHttp::Take() {
  {
    const absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Handle> handle = std::move(idle_.back());
      idle_.pop_back();
      return handle;
    }
  }
  return std::make_unique<Handle>();
}

void CurlHttp::Return(std::unique_ptr<Handle> handle) {
  const absl::MutexLock lock(&mutex_);
  idle_.push_back(std::move(handle));
}

absl::StatusOr<HttpResponse> CurlHttp::Send(const HttpRequest& request) {
  for (const auto& [name, value] : request.headers) {
    if (absl::StrContains(value, '\n') || absl::StrContains(value, '\r'))
      return absl::InvalidArgumentError(absl::StrCat("header ", name, " has more than one line"));
  }
  RETURN_IF_ERROR(Curl().loaded);
  std::unique_ptr<Handle> handle = Take();
  CURL* curl = handle->curl;
  if (curl == nullptr) return absl::ResourceExhaustedError("libcurl gives no handle");
  Curl().reset(curl);  // keeps the connections
  Transfer transfer;
  transfer.request = &request;
  transfer.handle = curl;
  const std::string url = UrlOf(request);
  const HeaderList headers = HeadersOf(request);
  char error[CURL_ERROR_SIZE] = "";
  Curl().setopt(curl, CURLOPT_URL, url.c_str());
  Curl().setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  Curl().setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  Curl().setopt(curl, CURLOPT_ERRORBUFFER, error);
  Curl().setopt(curl, CURLOPT_HEADERFUNCTION, TakeHeader);
  Curl().setopt(curl, CURLOPT_HEADERDATA, &transfer);
  Curl().setopt(curl, CURLOPT_WRITEFUNCTION, TakeBody);
  Curl().setopt(curl, CURLOPT_WRITEDATA, &transfer);
  Curl().setopt(curl, CURLOPT_NOPROGRESS, 0L);
  Curl().setopt(curl, CURLOPT_XFERINFOFUNCTION, AbortIfGivenUp);
  Curl().setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  SetLimits(curl, request);
  SetMethod(curl, request, transfer);
  const CURLcode code = Curl().perform(curl);
  transfer.response.status = static_cast<int>(transfer.Status());
  Return(std::move(handle));

  const auto say = [&](absl::string_view what) { return absl::StrCat(request.method, " ", url, ": ", what); };
  if (transfer.too_long) return absl::OutOfRangeError(say("the answer is longer than what was asked for"));
  if (transfer.too_large) return absl::ResourceExhaustedError(say("the answer is too large"));
  if (code == CURLE_ABORTED_BY_CALLBACK) return absl::CancelledError(say("given up"));
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
    return absl::InvalidArgumentError(say(Curl().strerror(code)));
  if (code != CURLE_OK) return absl::UnavailableError(say(error[0] != '\0' ? error : Curl().strerror(code)));
  const bool filled = transfer.response.status == 200 || transfer.response.status == 206;
  if (filled && transfer.filled != request.into.size() && !request.into.empty())
    return absl::OutOfRangeError(
        say(absl::StrCat("the answer has ", transfer.filled, " bytes of ", request.into.size())));
  return std::move(transfer.response);
}

}  // namespace composer
