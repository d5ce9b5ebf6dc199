// SPDX-License-Identifier: Apache-2.0
#include "storage/google_token.h"

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "storage/identity/rsa_signature.h"
#include "storage/s3_answers.h"

namespace composer {
namespace {

using Json = nlohmann::json;
constexpr int64_t kMostTokenBytes = 1 << 20;
constexpr char kScope[] = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr char kTokenUri[] = "https://oauth2.googleapis.com/token";

std::string Field(const Json& json, const char* name) {
  return json.is_object() && json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : "";
}

absl::StatusOr<GoogleToken> TokenOf(Http& http, HttpRequest request, absl::Time now) {
  request.max_body_bytes = kMostTokenBytes;
  const std::string where = request.origin + request.path;
  ASSIGN_OR_RETURN(const HttpResponse response, http.Send(request));
  const Json json = ParseJson(response.body);
  if (response.status != 200) {
    const absl::Status status = StatusOfAnswer(response, where);
    return absl::Status(status.code(), absl::StrCat(status.message(), ": ", Field(json, "error_description")));
  }
  GoogleToken token{Field(json, "access_token"), now + absl::Hours(1)};
  if (token.token.empty()) return absl::InternalError(where + " gave no access_token");
  if (json.contains("expires_in") && json["expires_in"].is_number_integer())
    token.expires = now + absl::Seconds(json["expires_in"].get<int64_t>());
  return token;
}

absl::StatusOr<GoogleToken> AskWith(Http& http, const std::string& uri, const HttpPairs& form, absl::Time now) {
  const std::string body = CanonicalQuery(form);
  const absl::string_view pieces[] = {body};
  HttpRequest request;
  request.method = "POST";
  const size_t scheme = uri.find("://");
  const size_t path = scheme == uri.npos ? uri.npos : uri.find('/', scheme + 3);
  request.origin = uri.substr(0, path);
  request.path = path == uri.npos ? "/" : uri.substr(path);
  request.headers = {{"content-type", "application/x-www-form-urlencoded"}};
  request.body = pieces;
  request.timeout = absl::Seconds(30);
  return TokenOf(http, request, now);
}

absl::StatusOr<GoogleToken> FromFile(const std::string& file, Http& http, absl::Time now) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMostTokenBytes));
  const Json json = ParseJson(text);
  const std::string type = Field(json, "type");
  if (type == "service_account") {
    const std::string uri = Field(json, "token_uri").empty() ? kTokenUri : Field(json, "token_uri");
    ASSIGN_OR_RETURN(const std::string assertion,
                     SignedAssertion(Field(json, "client_email"), Field(json, "private_key"), uri, now));
    return AskWith(http, uri, {{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"}, {"assertion", assertion}},
                   now);
  }
  if (type == "authorized_user") {
    return AskWith(http, kTokenUri,
                   {{"grant_type", "refresh_token"},
                    {"client_id", Field(json, "client_id")},
                    {"client_secret", Field(json, "client_secret")},
                    {"refresh_token", Field(json, "refresh_token")}},
                   now);
  }
  return absl::InvalidArgumentError(absl::StrCat("its type is \"", absl::CHexEscape(type.substr(0, 40)),
                                                 "\"; there are service_account and authorized_user"));
}

}  // namespace

absl::StatusOr<std::string> SignedAssertion(const std::string& email, const std::string& private_key,
                                            const std::string& audience, absl::Time now) {
  const Json claims = {{"iss", email},
                       {"scope", kScope},
                       {"aud", audience},
                       {"iat", absl::ToUnixSeconds(now)},
                       {"exp", absl::ToUnixSeconds(now) + 3600}};
  const std::string text =
      absl::StrCat(absl::WebSafeBase64Escape(R"({"alg":"RS256","typ":"JWT"})"), ".",
                   absl::WebSafeBase64Escape(claims.dump(-1, ' ', true, Json::error_handler_t::replace)));
  absl::StatusOr<std::string> signature = RsaSha256(private_key, /*pass_phrase=*/"", text);
  RETURN_IF_ERROR(Annotate(signature.status(), "its private_key"));
  return absl::StrCat(text, ".", absl::WebSafeBase64Escape(*signature));
}

absl::StatusOr<GoogleToken> FindGoogleToken(const Environment& env, Http& http, absl::Time now) {
  std::string file = env.GetOr("GOOGLE_APPLICATION_CREDENTIALS", "");
  const bool named = !file.empty();
  if (!named) file = JoinPath(env.GetOr("HOME", ""), ".config/gcloud/application_default_credentials.json");
  const absl::StatusOr<GoogleToken> found = FromFile(file, http, now);
  if (found.ok()) return found;
  if (named || !absl::IsNotFound(found.status())) return Annotate(found.status(), file);
  HttpRequest request;
  request.origin = absl::StrCat("http://", env.GetOr("GCE_METADATA_HOST", "metadata.google.internal"));
  request.path = "/computeMetadata/v1/instance/service-accounts/default/token";
  request.headers = {{"metadata-flavor", "Google"}};
  request.timeout = absl::Seconds(3);
  request.use_proxy = false;
  absl::StatusOr<GoogleToken> token = TokenOf(http, request, now);
  if (token.ok()) return token;
  return absl::PermissionDeniedError(
      absl::StrCat("no credentials for Google Cloud Storage; set GCS_KEY and GCS_SECRET (HMAC keys), or "
                   "GOOGLE_APPLICATION_CREDENTIALS (a key file); tried ",
                   file, " and the machine's service account (", token.status().message(), ")"));
}

}  // namespace composer
