// SPDX-License-Identifier: Apache-2.0
#include "storage/identity/azure_signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

// The first version with If-None-Match for lists of blocks and with blobs of up to 5000 MiB in one request.
constexpr char kVersion[] = "2021-12-02";
constexpr absl::string_view kSignedHeaders[] = {
    "content-encoding",  "content-language", "content-length", "content-md5",         "content-type", "date",
    "if-modified-since", "if-match",         "if-none-match",  "if-unmodified-since", "range"};

std::string Value(const HttpPairs& headers, absl::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return std::string(absl::StripAsciiWhitespace(value));
  }
  return "";
}

std::string TextToSign(const std::string& account, const HttpRequest& request) {
  std::string text = request.method;
  for (const absl::string_view name : kSignedHeaders) {
    const bool length = name == "content-length" && BodySize(request) > 0;
    absl::StrAppend(&text, "\n", length ? absl::StrCat(BodySize(request)) : Value(request.headers, name));
  }
  std::map<std::string, std::string> sorted;
  for (const auto& [name, value] : request.headers) {
    if (absl::StartsWith(name, "x-ms-")) sorted[name] = std::string(absl::StripAsciiWhitespace(value));
  }
  text += "\n";
  for (const auto& [name, value] : sorted) absl::StrAppend(&text, name, ":", value, "\n");
  absl::StrAppend(&text, "/", account, UriEncode(request.path, /*keep_slash=*/true));
  sorted.clear();
  for (const auto& [name, value] : request.query) sorted[absl::AsciiStrToLower(name)] = value;
  for (const auto& [name, value] : sorted) absl::StrAppend(&text, "\n", name, ":", value);
  return text;
}

// Undoes %XX.
std::string UriDecode(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned int byte = 0;
    const bool escape = text[i] == '%' && i + 2 < text.size() && absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte);
    decoded.push_back(escape ? static_cast<char>(byte) : text[i]);
    if (escape) i += 2;
  }
  return decoded;
}

}  // namespace

absl::Status SignAzureRequest(const AzureCredentials& credentials, absl::Time now, HttpRequest& request) {
  request.headers.emplace_back("x-ms-date", absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", now, absl::UTCTimeZone()));
  request.headers.emplace_back("x-ms-version", kVersion);
  if (credentials.key.empty()) {
    for (absl::string_view pair : absl::StrSplit(absl::StripPrefix(credentials.sas, "?"), '&', absl::SkipEmpty())) {
      const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(pair, absl::MaxSplits('=', 1));
      request.query.emplace_back(std::string(parts.first), UriDecode(parts.second));
    }
    return absl::OkStatus();
  }
  std::string key;
  if (!absl::Base64Unescape(credentials.key, &key) || key.empty())
    return absl::InvalidArgumentError("the key of the storage account is not base64, as Azure shows it");
  const std::string text = TextToSign(credentials.account, request);
  std::string digest(32, '\0');
  unsigned int size = 32;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), reinterpret_cast<unsigned char*>(digest.data()), &size);
  request.headers.emplace_back("authorization",
                               absl::StrCat("SharedKey ", credentials.account, ":", absl::Base64Escape(digest)));
  return absl::OkStatus();
}

}  // namespace composer
