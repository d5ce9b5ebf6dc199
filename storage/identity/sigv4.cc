// SPDX-License-Identifier: Apache-2.0
#include "storage/identity/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

std::string Sha256Of(absl::Span<const absl::string_view> pieces) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  for (const absl::string_view piece : pieces) EVP_DigestUpdate(context.get(), piece.data(), piece.size());
  std::string digest(32, '\0');
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  return digest;
}

std::string Hmac(absl::string_view key, absl::string_view text) {
  std::string digest(32, '\0');
  unsigned int size = 32;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), reinterpret_cast<unsigned char*>(digest.data()), &size);
  return digest;
}

absl::string_view HostOf(absl::string_view origin) {
  const size_t slashes = origin.find("://");
  return slashes == origin.npos ? origin : origin.substr(slashes + 3);
}

// Returns the headers sorted by name, values trimmed.
HttpPairs CanonicalHeaders(const HttpRequest& request) {
  HttpPairs headers = request.headers;
  headers.emplace_back("host", std::string(HostOf(request.origin)));
  for (auto& [name, value] : headers) value = std::string(absl::StripAsciiWhitespace(value));
  std::sort(headers.begin(), headers.end());
  return headers;
}

}  // namespace

std::string Sha256Hex(absl::Span<const absl::string_view> pieces) { return absl::BytesToHexString(Sha256Of(pieces)); }

void SignRequest(const SigningKey& key, const SigningScope& scope, absl::Time now, const std::string& payload_hash,
                 HttpRequest& request) {
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone());
  const std::string day = time.substr(0, 8);
  request.headers.emplace_back("x-amz-date", time);
  request.headers.emplace_back("x-amz-content-sha256", payload_hash);
  if (!key.session_token.empty()) request.headers.emplace_back("x-amz-security-token", key.session_token);

  const HttpPairs headers = CanonicalHeaders(request);
  const auto name_of = [](std::string* out, const auto& header) { out->append(header.first); };
  const std::string signed_names = absl::StrJoin(headers, ";", name_of);
  const std::string canonical =
      absl::StrCat(request.method, "\n", UriEncode(request.path, true), "\n", CanonicalQuery(request.query), "\n",
                   absl::StrJoin(headers, "\n", absl::PairFormatter(":")), "\n\n", signed_names, "\n", payload_hash);
  const std::string where = absl::StrCat(day, "/", scope.region, "/", scope.service, "/aws4_request");
  const std::string to_sign = absl::StrCat("AWS4-HMAC-SHA256\n", time, "\n", where, "\n", Sha256Hex({canonical}));

  const std::string day_key = Hmac(absl::StrCat("AWS4", key.secret_access_key), day);
  const std::string signing_key = Hmac(Hmac(Hmac(day_key, scope.region), scope.service), "aws4_request");
  request.headers.emplace_back(
      "authorization", absl::StrCat("AWS4-HMAC-SHA256 Credential=", key.access_key_id, "/", where, ",SignedHeaders=",
                                    signed_names, ",Signature=", absl::BytesToHexString(Hmac(signing_key, to_sign))));
}

}  // namespace composer
