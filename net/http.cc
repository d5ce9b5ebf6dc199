// SPDX-License-Identifier: Apache-2.0
#include "net/http.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace composer {

absl::string_view HttpResponse::Header(absl::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

std::string UriEncode(absl::string_view text, bool keep_slash) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_' ||
                       c == '~' || (c == '/' && keep_slash);
    if (plain) {
      encoded.push_back(c);
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string CanonicalQuery(const HttpPairs& query) {
  HttpPairs encoded;
  for (const auto& [key, value] : query) encoded.emplace_back(UriEncode(key, false), UriEncode(value, false));
  std::sort(encoded.begin(), encoded.end());
  return absl::StrJoin(encoded, "&", absl::PairFormatter("="));
}

std::string UrlOf(const HttpRequest& request) {
  const std::string query = CanonicalQuery(request.query);
  return absl::StrCat(request.origin, UriEncode(request.path, true), query.empty() ? "" : "?", query);
}

int64_t BodySize(const HttpRequest& request) {
  int64_t size = 0;
  for (const absl::string_view piece : request.body) size += static_cast<int64_t>(piece.size());
  return size;
}

}  // namespace composer
