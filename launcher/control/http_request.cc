// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/http_request.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

const char* ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

// Returns where the empty line that ends the head begins; npos if it has not arrived.
size_t EndOfHead(absl::string_view received) {
  const size_t ends[] = {received.find("\r\n\r\n"), received.find("\n\n")};
  return *std::min_element(std::begin(ends), std::end(ends));
}

}  // namespace

HttpRequestHead ParseHttpRequest(absl::string_view received) {
  if (EndOfHead(received.substr(0, kMaxHttpRequest)) == absl::string_view::npos)
    return {.status = received.size() < kMaxHttpRequest ? 0 : 431};
  const absl::string_view line = absl::StripSuffix(received.substr(0, received.find('\n')), "\r");
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !absl::StartsWith(words[1], "/") || !absl::StartsWith(words[2], "HTTP/"))
    return {.status = 400};
  if (!absl::StartsWith(words[2], "HTTP/1.")) return {.status = 505};
  HttpRequestHead request = {.status = 200, .head = words[0] == "HEAD"};
  if (words[0] != "GET" && !request.head) return {.status = 405};
  const size_t end = words[1].find('?');
  request.path = std::string(words[1].substr(0, end));
  if (end != absl::string_view::npos) request.query = std::string(words[1].substr(end + 1));
  return request;
}

std::string HttpResponse(int status, absl::string_view content_type, absl::string_view body, bool head) {
  return absl::StrCat("HTTP/1.1 ", status, " ", ReasonOf(status), "\r\nContent-Type: ", content_type,
                      "\r\nContent-Length: ", body.size(), status == 405 ? "\r\nAllow: GET, HEAD" : "",
                      "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n", head ? "" : body);
}

std::string HttpResponse(int status, bool head) {
  return HttpResponse(status, "text/plain", absl::StrCat(ReasonOf(status), "\n"), head);
}

}  // namespace composer
