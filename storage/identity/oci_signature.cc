// SPDX-License-Identifier: Apache-2.0
#include "storage/identity/oci_signature.h"

#include <openssl/sha.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "storage/identity/rsa_signature.h"

namespace composer {
namespace {

std::string Sha256Base64(absl::Span<const absl::string_view> pieces) {
  std::string all, digest(SHA256_DIGEST_LENGTH, '\0');
  for (const absl::string_view piece : pieces) all.append(piece.data(), piece.size());
  SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::Base64Escape(digest);
}

}  // namespace

absl::Status SignOciRequest(const OciCredentials& credentials, absl::Time now, HttpRequest& request) {
  const std::string date = absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", now, absl::UTCTimeZone());
  const std::string target = UrlOf(request).substr(request.origin.size());
  HttpPairs with = {{"date", date},
                    {"(request-target)", absl::StrCat(absl::AsciiStrToLower(request.method), " ", target)},
                    {"host", request.origin.substr(request.origin.find("://") + 3)}};
  request.headers.emplace_back("date", date);
  if (request.method == "POST") {
    const std::string hash = Sha256Base64(request.body);
    request.headers.emplace_back("content-type", "application/json");
    request.headers.emplace_back("x-content-sha256", hash);
    with.emplace_back("content-length", absl::StrCat(BodySize(request)));
    with.emplace_back("content-type", "application/json");
    with.emplace_back("x-content-sha256", hash);
  }
  const std::string text = absl::StrJoin(with, "\n", absl::PairFormatter(": "));
  ASSIGN_OR_RETURN(const std::string signature, RsaSha256(credentials.private_key, credentials.pass_phrase, text));
  const std::string names = absl::StrJoin(with, " ", [](std::string* out, const auto& one) { *out += one.first; });
  request.headers.emplace_back("authorization",
                               absl::StrCat(R"(Signature algorithm="rsa-sha256",headers=")", names, R"(",keyId=")",
                                            credentials.tenancy, "/", credentials.user, "/", credentials.fingerprint,
                                            R"(",signature=")", absl::Base64Escape(signature), R"(",version="1")"));
  return absl::OkStatus();
}

}  // namespace composer
