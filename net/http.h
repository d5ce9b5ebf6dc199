// HTTP requests, as object storage and metadata services need them: the seam and its data types. CurlHttp
// (curl_http.h) is the real implementation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace composer {

using HttpPairs = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = "GET";
  std::string origin;  // "https://host[:port]"
  std::string path;    // not encoded; begins with '/'
  HttpPairs query;     // not encoded
  HttpPairs headers;   // names in lower case; without host and content-length
  absl::Span<const absl::string_view> body;
  // Receives the body of an answer with status 200 or 206; a body of another length is kOutOfRange. If empty, the body
  // goes to HttpResponse::body.
  absl::Span<char> into;
  absl::Duration timeout = absl::Minutes(10);
  bool use_proxy = true;                        // that of the environment; false for services of this machine
  int64_t max_body_bytes = 64 << 20;            // limit of HttpResponse::body; more is kResourceExhausted
  const std::atomic<bool>* given_up = nullptr;  // once true, Send returns kCancelled soon; null: never
  bool follow_redirects = false;                // up to five of them; headers go with the request to other servers
};

struct HttpResponse {
  int status = 0;
  HttpPairs headers;  // names in lower case
  std::string body;

  // Returns "" when the header is absent.
  absl::string_view Header(absl::string_view name) const;
};

// Thread-safe.
class Http {
 public:
  virtual ~Http() = default;
  // OK with any status that the server answered. kUnavailable: no (complete) answer came, with the reason; the request
  // may have been carried out. kInvalidArgument: not a valid request. kCancelled: given up.
  virtual absl::StatusOr<HttpResponse> Send(const HttpRequest& request) = 0;
};

// Encodes as in RFC 3986: everything but letters, digits and -._~ as %XX; '/' too unless keep_slash.
std::string UriEncode(absl::string_view text, bool keep_slash);
// Returns "k=v&k2=", encoded and sorted by the encoded text, as a signature requires it; "" for no pairs.
std::string CanonicalQuery(const HttpPairs& query);
// Returns origin + encoded path + query.
std::string UrlOf(const HttpRequest& request);
int64_t BodySize(const HttpRequest& request);

}  // namespace composer
