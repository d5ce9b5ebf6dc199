// SPDX-License-Identifier: Apache-2.0
#include "storage/open_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "net/curl_http.h"
#include "storage/aws_config.h"
#include "storage/s3_store.h"

namespace composer {
namespace {

struct Place {
  std::string scheme, bucket, prefix;
};

absl::StatusOr<Place> ParsePlace(absl::string_view text) {
  const size_t scheme = text.find("://");
  Place place;
  place.scheme = std::string(text.substr(0, scheme));
  absl::string_view rest = text.substr(scheme + 3);
  place.bucket = std::string(rest.substr(0, rest.find('/')));
  rest.remove_prefix(std::min(rest.size(), place.bucket.size() + 1));
  while (absl::ConsumeSuffix(&rest, "/")) continue;
  place.prefix = std::string(rest);
  const bool valid =
      !place.bucket.empty() && std::all_of(place.bucket.begin(), place.bucket.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '@';
      });
  if (!valid)
    return absl::InvalidArgumentError(absl::StrCat("`", text, "`: expected ", place.scheme, "://bucket/prefix"));
  if (!place.prefix.empty()) RETURN_IF_ERROR(Annotate(CheckKey(place.prefix), text));
  return place;
}

std::string FirstOf(const Environment& env, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::string value = env.GetOr(name, "");
    while (absl::EndsWith(value, "/")) value.pop_back();
    if (!value.empty()) return value;
  }
  return "";
}

// A store together with its dependencies.
struct OwnedS3Store {
  OwnedS3Store(S3Store::Options options, const std::function<S3KeySource::Fetch(Http&)>& fetch)
      : keys(std::make_shared<S3KeySource>(fetch(http), RealClock::Get())),
        store(std::move(options), http, keys, RealClock::Get()) {}
  CurlHttp http;
  std::shared_ptr<S3KeySource> keys;
  S3Store store;
};

std::shared_ptr<ObjectStore> MakeOwned(S3Store::Options options,
                                       const std::function<S3KeySource::Fetch(Http&)>& fetch) {
  const auto owned = std::make_shared<OwnedS3Store>(std::move(options), fetch);
  return {owned, &owned->store};
}

std::shared_ptr<ObjectStore> OpenS3(const Place& place, const Environment& env) {
  S3Store::Options options;
  options.prefix = place.prefix;
  options.bucket.name = place.bucket;
  options.bucket.region = AwsRegion(env);
  options.bucket.endpoint = FirstOf(env, {"S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  // A bucket's name with a dot would not match the wildcard certificate.
  options.bucket.path_style = !options.bucket.endpoint.empty() || absl::StrContains(place.bucket, '.');
  if (options.bucket.endpoint.empty())
    options.bucket.endpoint = absl::StrCat("https://s3.", options.bucket.region, ".amazonaws.com");
  return MakeOwned(std::move(options), [env](Http& http) -> S3KeySource::Fetch {
    return [env, &http] { return FindS3Credentials(env, http, absl::Now()); };
  });
}

// Reads the keys from two variables.
std::function<S3KeySource::Fetch(Http&)> KeysOf(const Environment& env, std::string id, std::string secret) {
  return [=](Http&) -> S3KeySource::Fetch {
    return [=]() -> absl::StatusOr<S3Credentials> {
      S3Credentials found;
      found.key = {env.GetOr(id, ""), env.GetOr(secret, ""), ""};
      if (found.key.access_key_id.empty() || found.key.secret_access_key.empty())
        return absl::PermissionDeniedError(absl::StrCat("set ", id, " and ", secret, " (HMAC keys)"));
      return found;
    };
  };
}

std::shared_ptr<ObjectStore> OpenGcs(const Place& place, const Environment& env) {
  S3Store::Options options;
  options.prefix = place.prefix;
  options.bucket = {.scheme = "gs", .name = place.bucket, .region = "auto"};
  options.bucket.endpoint = FirstOf(env, {"GCS_ENDPOINT_URL"});
  if (options.bucket.endpoint.empty()) options.bucket.endpoint = "https://storage.googleapis.com";
  options.bucket.create_only = S3Bucket::CreateOnly::kGenerationMatch;
  return MakeOwned(std::move(options), KeysOf(env, "GCS_KEY", "GCS_SECRET"));
}

absl::StatusOr<std::shared_ptr<ObjectStore>> OpenOci(const Place& place, const Environment& env) {
  const size_t at = place.bucket.find('@');
  const std::string region = env.GetOr("OCI_REGION", "");
  if (at == std::string::npos) return absl::InvalidArgumentError("expected oci://bucket@namespace/prefix");
  if (region.empty()) return absl::InvalidArgumentError("oci: set OCI_REGION, such as us-ashburn-1");
  S3Store::Options options;
  options.prefix = place.prefix;
  options.bucket = {.scheme = "oci", .name = place.bucket.substr(0, at), .region = region};
  options.bucket.endpoint = FirstOf(env, {"OCI_ENDPOINT_URL"});
  if (options.bucket.endpoint.empty()) {
    options.bucket.endpoint =
        absl::StrCat("https://", place.bucket.substr(at + 1), ".compat.objectstorage.", region, ".oraclecloud.com");
  }
  return MakeOwned(std::move(options), KeysOf(env, "OCI_KEY", "OCI_SECRET"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ObjectStore>> OpenStore(const std::string& place, const Environment& env) {
  if (!IsRemotePlace(place)) return OpenPlace(nullptr, place);
  ASSIGN_OR_RETURN(const Place parsed, ParsePlace(place));
  if (parsed.scheme == "s3") return OpenS3(parsed, env);
  if (parsed.scheme == "gs") return OpenGcs(parsed, env);
  if (parsed.scheme == "oci") return OpenOci(parsed, env);
  return absl::InvalidArgumentError(
      absl::StrCat("`", place, "`: unknown scheme; there are a path, file://, s3://, gs:// and oci://"));
}

}  // namespace composer
