// SPDX-License-Identifier: Apache-2.0
#include "net/endpoint.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr size_t kMaxHostBytes = 253;  // RFC 1035
constexpr size_t kMaxEndpoints = 64;

absl::Status Refuse(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("`", absl::CHexEscape(text.substr(0, 100)), "` ", why));
}

bool IsHost(absl::string_view host) {
  return !host.empty() && host.size() <= kMaxHostBytes && host[0] != '-' &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' || c == ':' ||
                  c == '%';  // separates the zone of a link-local address
         });
}

absl::StatusOr<Endpoint> ParseOne(absl::string_view text, int default_port) {
  absl::string_view host = text, port;
  const size_t bracket = text.find(']');
  if (absl::StartsWith(text, "[")) {
    if (bracket == absl::string_view::npos) return Refuse(text, "has a [ without ]");
    host = text.substr(1, bracket - 1);
    port = text.substr(bracket + 1);
    if (!port.empty() && port[0] != ':') return Refuse(text, "must be [ADDRESS]:PORT");
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    host = text.substr(0, text.find(':'));
    port = text.substr(text.find(':'));
  }
  Endpoint endpoint = {std::string(host), default_port};
  if (!IsHost(host)) return Refuse(text, "must be HOST or HOST:PORT");
  if (port.empty()) return endpoint;
  port.remove_prefix(1);
  const bool digits = !port.empty() && std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(port, &endpoint.port) || endpoint.port > 65535) {
    return Refuse(text, "must end in a port from 0 to 65535");
  }
  return endpoint;
}

}  // namespace

std::string Endpoint::ToString() const {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<std::vector<Endpoint>> ParseEndpoints(absl::string_view text, int default_port) {
  std::vector<Endpoint> result;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    if (result.size() == kMaxEndpoints) return Refuse(text, absl::StrCat("has more than ", kMaxEndpoints, " places"));
    ASSIGN_OR_RETURN(Endpoint endpoint, ParseOne(absl::StripAsciiWhitespace(word), default_port));
    result.push_back(std::move(endpoint));
  }
  return result;
}

bool IsLoopbackName(absl::string_view host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

}  // namespace composer
