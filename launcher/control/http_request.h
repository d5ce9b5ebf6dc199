// What the launcher's HTTP port understands of HTTP/1: GET and HEAD without a body, one request a connection. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

inline constexpr size_t kMaxHttpRequest = 8 << 10;  // bytes of its head

struct HttpRequestHead {
  int status = 0;  // 200: understood; 400, 405, 431, 505: refused; 0: more must come
  bool head = false;
  std::string path;  // without the query
};

// `received`: all bytes so far.
HttpRequestHead ParseHttpRequest(absl::string_view received);

// A whole response that ends its connection. `head`: without the body, but with its length.
std::string HttpResponse(int status, absl::string_view content_type, absl::string_view body, bool head);

// One without content: its own text, for people.
std::string HttpResponse(int status, bool head);

}  // namespace composer
