// SPDX-License-Identifier: Apache-2.0
#include "storage/s3_credentials.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <pugixml.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "storage/identity/aws_config.h"
#include "storage/s3_answers.h"

namespace composer {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;
constexpr absl::Duration kMargin = absl::Minutes(5);

using Found = absl::StatusOr<std::optional<S3Credentials>>;  // nullopt: this source is not set up
using Json = nlohmann::json;

absl::Time ExpiryOf(const std::string& text) {
  absl::Time time;
  std::string error;
  return absl::ParseTime(absl::RFC3339_full, text, &time, &error) ? time : absl::InfiniteFuture();
}

Found FromEnvironment(const Environment& env) {
  S3Credentials found;
  found.key = {env.GetOr("AWS_ACCESS_KEY_ID", ""), env.GetOr("AWS_SECRET_ACCESS_KEY", ""),
               env.GetOr("AWS_SESSION_TOKEN", "")};
  found.origin = "environment";
  if (found.key.access_key_id.empty() && found.key.secret_access_key.empty()) return std::nullopt;
  if (found.key.access_key_id.empty() || found.key.secret_access_key.empty())
    return absl::InvalidArgumentError("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: only one of them is set");
  return found;
}

Found FromProfile(const Environment& env) {
  const AwsProfile profile = ReadAwsProfile(env);
  S3Credentials found;
  found.key = {profile.Get("aws_access_key_id"), profile.Get("aws_secret_access_key"),
               profile.Get("aws_session_token")};
  found.origin = absl::StrCat("profile ", profile.name, " of ", profile.file);
  if (found.key.access_key_id.empty() || found.key.secret_access_key.empty()) return std::nullopt;
  return found;
}

// Parses the JSON of a container's or an instance's metadata.
Found FromJson(const std::string& text, const std::string& origin) {
  const Json json = ParseJson(text);
  const auto field = [&](const char* name) {
    return json.is_object() && json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : "";
  };
  S3Credentials found{
      {field("AccessKeyId"), field("SecretAccessKey"), field("Token")}, ExpiryOf(field("Expiration")), origin};
  if (found.key.access_key_id.empty() || found.key.secret_access_key.empty())
    return absl::InternalError(absl::StrCat(origin, " gave no keys"));
  return found;
}

absl::StatusOr<std::string> Ask(Http& http, HttpRequest request, absl::Duration timeout) {
  request.timeout = timeout;
  request.max_body_bytes = kMaxBytes;
  ASSIGN_OR_RETURN(HttpResponse response, http.Send(request));
  if (response.status != 200) return StatusOfAnswer(response, request.origin + request.path);
  return std::move(response.body);
}

Found FromWebIdentity(const Environment& env, Http& http) {
  const std::string file = env.GetOr("AWS_WEB_IDENTITY_TOKEN_FILE", ""), role = env.GetOr("AWS_ROLE_ARN", "");
  if (file.empty() || role.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const std::string token, ReadFile(file, kMaxBytes));
  HttpRequest request;
  request.origin = env.GetOr("AWS_ENDPOINT_URL_STS", absl::StrCat("https://sts.", AwsRegion(env), ".amazonaws.com"));
  request.path = "/";
  request.query = {{"Action", "AssumeRoleWithWebIdentity"},
                   {"Version", "2011-06-15"},
                   {"RoleArn", role},
                   {"RoleSessionName", env.GetOr("AWS_ROLE_SESSION_NAME", "composer")},
                   {"WebIdentityToken", std::string(absl::StripAsciiWhitespace(token))}};
  ASSIGN_OR_RETURN(const std::string xml, Ask(http, request, absl::Seconds(30)));
  pugi::xml_document document;
  document.load_buffer(xml.data(), xml.size());
  const pugi::xml_node node =
      document.child("AssumeRoleWithWebIdentityResponse").child("AssumeRoleWithWebIdentityResult").child("Credentials");
  S3Credentials found{
      {node.child_value("AccessKeyId"), node.child_value("SecretAccessKey"), node.child_value("SessionToken")},
      ExpiryOf(node.child_value("Expiration")),
      absl::StrCat("web identity, role ", role)};
  if (found.key.access_key_id.empty()) return absl::InternalError("STS gave no keys");
  return found;
}

// Splits "http://host/path".
void SetUrl(absl::string_view url, HttpRequest& request) {
  const size_t host = url.find("://");
  const size_t path = url.find('/', host == url.npos ? 0 : host + 3);
  request.origin = std::string(url.substr(0, path));
  request.path = path == url.npos ? "/" : std::string(url.substr(path));
}

Found FromContainer(const Environment& env, Http& http) {
  const std::string relative = env.GetOr("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "");
  const std::string full = env.GetOr("AWS_CONTAINER_CREDENTIALS_FULL_URI", "");
  if (relative.empty() && full.empty()) return std::nullopt;
  HttpRequest request;
  SetUrl(relative.empty() ? full : "http://169.254.170.2" + relative, request);
  // As in AWS's tools, the keys must not cross a network unencrypted.
  const bool local =
      absl::StartsWith(request.origin, "http://127.") || absl::StartsWith(request.origin, "http://localhost") ||
      absl::StartsWith(request.origin, "http://169.254.170.") || absl::StartsWith(request.origin, "http://[::1]") ||
      absl::StartsWith(request.origin, "http://[fd00:ec2::23]");
  if (!local && !absl::StartsWith(request.origin, "https://"))
    return absl::InvalidArgumentError("AWS_CONTAINER_CREDENTIALS_FULL_URI: must be https, or a local address");
  std::string token = env.GetOr("AWS_CONTAINER_AUTHORIZATION_TOKEN", "");
  if (const std::string file = env.GetOr("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", ""); !file.empty()) {
    ASSIGN_OR_RETURN(token, ReadFile(file, kMaxBytes));
  }
  if (!token.empty()) request.headers.emplace_back("authorization", absl::StripAsciiWhitespace(token));
  ASSIGN_OR_RETURN(const std::string json, Ask(http, request, absl::Seconds(5)));
  return FromJson(json, "the container's role");
}

Found FromInstance(const Environment& env, Http& http) {
  if (absl::EqualsIgnoreCase(env.GetOr("AWS_EC2_METADATA_DISABLED", "false"), "true")) return std::nullopt;
  HttpRequest request;
  request.origin = env.GetOr("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254");
  request.use_proxy = false;
  request.method = "PUT";
  request.path = "/latest/api/token";
  request.headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}};
  const absl::StatusOr<std::string> token = Ask(http, request, absl::Seconds(1));
  if (!token.ok()) return std::nullopt;  // not an EC2 instance
  request.method = "GET";
  request.headers = {{"x-aws-ec2-metadata-token", *token}};
  request.path = "/latest/meta-data/iam/security-credentials/";
  const absl::StatusOr<std::string> role = Ask(http, request, absl::Seconds(2));
  if (absl::IsNotFound(role.status())) return std::nullopt;  // an instance without a role
  RETURN_IF_ERROR(role.status());
  const std::string name(absl::StripAsciiWhitespace(*role));
  request.path += name;
  ASSIGN_OR_RETURN(const std::string json, Ask(http, request, absl::Seconds(2)));
  return FromJson(json, absl::StrCat("the instance's role ", name));
}

}  // namespace

absl::StatusOr<S3Credentials> FindS3Credentials(const Environment& env, Http& http, absl::Time now) {
  const std::pair<const char*, std::function<Found()>> sources[] = {
      {"environment (AWS_ACCESS_KEY_ID)", [&] { return FromEnvironment(env); }},
      {"web identity (AWS_WEB_IDENTITY_TOKEN_FILE)", [&] { return FromWebIdentity(env, http); }},
      {"files (~/.aws/credentials)", [&] { return FromProfile(env); }},
      {"container (AWS_CONTAINER_CREDENTIALS_FULL_URI)", [&] { return FromContainer(env, http); }},
      {"the instance's role (169.254.169.254)", [&] { return FromInstance(env, http); }}};
  std::vector<std::string> tried;
  for (const auto& [name, look] : sources) {
    Found found = look();
    if (!found.ok()) return Annotate(found.status(), absl::StrCat("credentials from ", name));
    if (found->has_value()) {
      if ((*found)->expires <= now)
        return absl::PermissionDeniedError(absl::StrCat("credentials from ", name, " have expired"));
      return **std::move(found);
    }
    tried.emplace_back(name);
  }
  return absl::PermissionDeniedError(absl::StrCat("no credentials for S3; looked in ", absl::StrJoin(tried, ", ")));
}

absl::StatusOr<SigningKey> S3KeySource::Get() {
  const absl::MutexLock lock(&mutex_);
  if (!known_ || credentials_.expires - kMargin <= clock_.Now()) {
    absl::StatusOr<S3Credentials> fetched = fetch_();
    const bool still_good = known_ && credentials_.expires > clock_.Now();
    if (!fetched.ok() && !still_good) return fetched.status();
    if (fetched.ok()) credentials_ = *std::move(fetched);
    known_ = true;
  }
  return credentials_.key;
}

void S3KeySource::Forget() {
  const absl::MutexLock lock(&mutex_);
  known_ = false;
}

}  // namespace composer
