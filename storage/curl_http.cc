// SPDX-License-Identifier: Apache-2.0
#include "storage/curl_http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

constexpr size_t kMaxHeaders = 200;

// What a request in flight has sent and received. An answer may consist of several (redirects are not followed, but
// "100 Continue" is an answer, too): each status line starts over.
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
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
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

using HeaderList = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

HeaderList HeadersOf(const HttpRequest& request) {
  curl_slist* list = nullptr;
  for (const auto& [name, value] : request.headers)
    list = curl_slist_append(list, absl::StrCat(name, value.empty() ? ";" : ": ", value).c_str());
  list = curl_slist_append(list, "expect:");  // no "100 Continue": saves a round trip
  return {list, curl_slist_free_all};
}

void SetMethod(CURL* curl, const HttpRequest& request, Transfer& transfer) {
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    return;
  }
  if (request.method == "PUT" || request.method == "POST") {
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(BodySize(request)));
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, ReadBody);
    curl_easy_setopt(curl, CURLOPT_READDATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, RewindBody);
    curl_easy_setopt(curl, CURLOPT_SEEKDATA, &transfer);
  }
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

void SetLimits(CURL* curl, const HttpRequest& request) {
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);  // required with threads
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 10'000L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(absl::ToInt64Milliseconds(request.timeout)));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1024L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 512L << 10);
  curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
}

}  // namespace

struct CurlHttp::Handle {
  Handle() : curl(curl_easy_init()) {}
  ~Handle() { curl_easy_cleanup(curl); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  CURL* curl;
};

CurlHttp::CurlHttp() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}
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
  std::unique_ptr<Handle> handle = Take();
  CURL* curl = handle->curl;
  if (curl == nullptr) return absl::ResourceExhaustedError("libcurl gives no handle");
  curl_easy_reset(curl);  // keeps the connections
  Transfer transfer;
  transfer.request = &request;
  transfer.handle = curl;
  const std::string url = UrlOf(request);
  const HeaderList headers = HeadersOf(request);
  char error[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, TakeHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, TakeBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, AbortIfGivenUp);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  SetLimits(curl, request);
  SetMethod(curl, request, transfer);
  const CURLcode code = curl_easy_perform(curl);
  transfer.response.status = static_cast<int>(transfer.Status());
  Return(std::move(handle));

  const auto say = [&](absl::string_view what) { return absl::StrCat(request.method, " ", url, ": ", what); };
  if (transfer.too_long) return absl::OutOfRangeError(say("the answer is longer than what was asked for"));
  if (transfer.too_large) return absl::ResourceExhaustedError(say("the answer is too large"));
  if (code == CURLE_ABORTED_BY_CALLBACK) return absl::CancelledError(say("given up"));
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
    return absl::InvalidArgumentError(say(curl_easy_strerror(code)));
  if (code != CURLE_OK) return absl::UnavailableError(say(error[0] != '\0' ? error : curl_easy_strerror(code)));
  const bool filled = transfer.response.status == 200 || transfer.response.status == 206;
  if (filled && transfer.filled != request.into.size() && !request.into.empty())
    return absl::OutOfRangeError(
        say(absl::StrCat("the answer has ", transfer.filled, " bytes of ", request.into.size())));
  return std::move(transfer.response);
}

}  // namespace composer
