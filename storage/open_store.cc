// SPDX-License-Identifier: Apache-2.0
#include "storage/open_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "net/curl_http.h"
#include "storage/azure_store.h"
#include "storage/google_token.h"
#include "storage/http_store.h"
#include "storage/identity/aws_config.h"
#include "storage/identity/oci_config.h"
#include "storage/oci_store.h"
#include "storage/s3_store.h"
#include "storage/sftp_store.h"
#include "storage/volume_store.h"

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
  if (env.GetOr("GCS_KEY", "").empty()) {
    options.bucket.attempt_header = "x-goog-meta-composer-attempt";
    return MakeOwned(std::move(options), [env](Http& http) -> S3KeySource::Fetch {
      return [env, &http]() -> absl::StatusOr<S3Credentials> {
        ASSIGN_OR_RETURN(const GoogleToken token, FindGoogleToken(env, http, absl::Now()));
        return S3Credentials{{"", "", "", token.token}, token.expires, "Google"};
      };
    });
  }
  return MakeOwned(std::move(options), KeysOf(env, "GCS_KEY", "GCS_SECRET"));
}

// A store together with the requests that it sends.
template <typename Store>
struct Owned {
  explicit Owned(typename Store::Options options) : store(std::move(options), http, RealClock::Get()) {}
  CurlHttp http;
  Store store;
};

template <typename Store>
std::shared_ptr<ObjectStore> Own(typename Store::Options options) {
  const auto owned = std::make_shared<Owned<Store>>(std::move(options));
  return {owned, &owned->store};
}

// With customer secret keys, which are of its S3-compatible API.
std::shared_ptr<ObjectStore> OpenOciByS3(const Place& place, const std::string& bucket_namespace,
                                         const std::string& region, const Environment& env) {
  S3Store::Options options;
  options.prefix = place.prefix;
  options.bucket = {.scheme = "oci", .name = place.bucket, .region = region};
  options.bucket.endpoint = FirstOf(env, {"OCI_ENDPOINT_URL"});
  if (options.bucket.endpoint.empty()) {
    options.bucket.endpoint =
        absl::StrCat("https://", bucket_namespace, ".compat.objectstorage.", region, ".oraclecloud.com");
  }
  return MakeOwned(std::move(options), KeysOf(env, "OCI_KEY", "OCI_SECRET"));
}

absl::StatusOr<std::shared_ptr<ObjectStore>> OpenOci(Place place, const Environment& env) {
  const size_t at = place.bucket.find('@');
  const std::string in = at == std::string::npos ? "" : place.bucket.substr(at + 1);
  place.bucket.resize(std::min(at, place.bucket.size()));
  std::string region = env.GetOr("OCI_REGION", "");
  if (!env.GetOr("OCI_KEY", "").empty()) {
    if (in.empty()) return absl::InvalidArgumentError("expected oci://bucket@namespace/prefix with OCI_KEY");
    if (region.empty()) return absl::InvalidArgumentError("oci: set OCI_REGION, such as us-ashburn-1");
    return OpenOciByS3(place, in, region, env);
  }
  const absl::StatusOr<OciProfile> profile = ReadOciProfile(env);
  if (!profile.ok())
    return absl::InvalidArgumentError(
        absl::StrCat("oci: ", profile.status().message(), "; `oci setup config` writes ", OciConfigFile(env),
                     ", or set OCI_KEY, OCI_SECRET and OCI_REGION (a key of `oci iam customer-secret-key create`)"));
  if (region.empty()) region = profile->region;
  OciStore::Options options;
  options.endpoint = FirstOf(env, {"OCI_ENDPOINT_URL"});
  if (options.endpoint.empty() && region.empty())
    return absl::InvalidArgumentError(absl::StrCat("oci: ", profile->file, ": region: missing, and no OCI_REGION"));
  if (options.endpoint.empty()) options.endpoint = absl::StrCat("https://objectstorage.", region, ".oraclecloud.com");
  options.bucket_namespace = in;
  options.bucket = place.bucket;
  options.prefix = place.prefix;
  options.credentials = profile->credentials;
  return Own<OciStore>(std::move(options));
}

absl::StatusOr<std::shared_ptr<ObjectStore>> OpenAzure(const Place& place, const Environment& env) {
  AzureStore::Options options;
  options.container = place.bucket;
  options.prefix = place.prefix;
  options.credentials = {FirstOf(env, {"AZURE_STORAGE_ACCOUNT", "AZURE_ACCOUNT_NAME"}),
                         FirstOf(env, {"AZURE_STORAGE_KEY", "AZURE_ACCOUNT_ACCESS_KEY"}),
                         FirstOf(env, {"AZURE_STORAGE_SAS_TOKEN"})};
  options.endpoint = FirstOf(env, {"AZURE_STORAGE_ENDPOINT_URL"});
  const AzureCredentials& found = options.credentials;
  if (found.account.empty() || (found.key.empty() && found.sas.empty()))
    return absl::InvalidArgumentError(
        "azure: set AZURE_STORAGE_ACCOUNT, and AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN");
  if (options.endpoint.empty()) options.endpoint = absl::StrCat("https://", found.account, ".blob.core.windows.net");
  if (!absl::StrContains(options.endpoint, "://"))
    return absl::InvalidArgumentError("AZURE_STORAGE_ENDPOINT_URL: expected https://…");
  return Own<AzureStore>(std::move(options));
}

absl::StatusOr<std::shared_ptr<ObjectStore>> OpenVolume(const std::string& text, const Environment& env) {
  VolumeStore::Options options;
  absl::string_view folder = absl::StripPrefix(text, "dbfs:");
  while (absl::ConsumeSuffix(&folder, "/")) continue;
  options.folder = std::string(folder);
  absl::string_view key = folder;
  if (!absl::ConsumePrefix(&key, "/Volumes/") || !CheckKey(key).ok() || std::count(key.begin(), key.end(), '/') < 2)
    return absl::InvalidArgumentError(
        absl::StrCat("`", text, "`: expected dbfs:/Volumes/catalog/schema/volume/folder"));
  options.host = FirstOf(env, {"DATABRICKS_HOST"});
  options.token = FirstOf(env, {"DATABRICKS_TOKEN"});
  if (options.host.empty() || options.token.empty())
    return absl::InvalidArgumentError("dbfs:/Volumes: set DATABRICKS_HOST and DATABRICKS_TOKEN");
  if (!absl::StrContains(options.host, "://")) options.host = "https://" + options.host;
  return Own<VolumeStore>(std::move(options));
}

absl::StatusOr<std::shared_ptr<ObjectStore>> OpenHttp(const std::string& text) {
  HttpStore::Options options;
  absl::string_view url = text;
  while (absl::ConsumeSuffix(&url, "/")) continue;
  const size_t path = url.find('/', url.find("://") + 3);
  options.origin = std::string(url.substr(0, path));
  if (path != url.npos) options.prefix = std::string(url.substr(path + 1));
  if (!options.prefix.empty()) RETURN_IF_ERROR(Annotate(CheckKey(options.prefix), text));
  return Own<HttpStore>(std::move(options));
}

// Places of Composer's that are not stores here, with the way out.
absl::Status RefusePlace(const std::string& place) {
  constexpr std::pair<absl::string_view, absl::string_view> kRefused[] = {
      {"wandb://", "`wandb artifact get NAME:VERSION` fetches an artifact into a folder, which load_path names"},
      {"mlflow", "`mlflow artifacts download` fetches artifacts into a folder, which load_path names"},
      {"runs:/", "`mlflow artifacts download` fetches artifacts into a folder, which load_path names"},
      {"libcloud://", "s3://, gs://, oci:// and azure:// are stores themselves"},
      {"hdfs://", "mount it, or name a store of a plugin"}};
  for (const auto& [prefix, advice] : kRefused) {
    if (absl::StartsWith(place, prefix))
      return absl::InvalidArgumentError(absl::StrCat("`", place, "`: no store of this kind; ", advice));
  }
  return absl::OkStatus();
}

bool IsPlainName(absl::string_view text) {
  return !text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
  });
}

// ssh itself finds keys, known hosts and whatever else its configuration says of the host.
absl::StatusOr<std::shared_ptr<ObjectStore>> OpenSftp(const std::string& text, const Environment& env) {
  absl::string_view url = text;
  while (absl::ConsumeSuffix(&url, "/")) continue;
  absl::string_view host = absl::StripPrefix(url, "sftp://");
  const size_t slash = host.find('/');
  absl::string_view folder = slash == host.npos ? "" : host.substr(slash + 1);
  host = host.substr(0, slash);
  absl::string_view user, port;
  if (const size_t at = host.find('@'); at != host.npos) {
    user = host.substr(0, at);
    host.remove_prefix(at + 1);
  }
  if (const size_t colon = host.find(':'); colon != host.npos) {
    port = host.substr(colon + 1);
    host = host.substr(0, colon);
  }
  uint32_t number = 22;
  SftpStore::Options options;
  options.folder = absl::ConsumePrefix(&folder, "~/") ? std::string(folder) : absl::StrCat("/", folder);
  if (!IsPlainName(host) || (!user.empty() && !IsPlainName(user)) || !CheckKey(folder).ok() ||
      (!port.empty() && (!absl::SimpleAtoi(port, &number) || number == 0 || number > 65535)))
    return absl::InvalidArgumentError(absl::StrCat("`", text, "`: expected sftp://[user@]host[:port]/folder"));
  options.url = std::string(url);
  options.environment = env;
  options.command = {"ssh", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15"};
  const auto add = [&](const char* flag, std::string value) {
    if (!value.empty()) options.command.insert(options.command.end(), {flag, std::move(value)});
  };
  add("-i", env.GetOr("COMPOSER_SFTP_KEY_FILE", ""));
  const std::string known = env.GetOr("COMPOSER_SFTP_KNOWN_HOSTS_FILE", "");
  add("-o", known.empty() ? "" : absl::StrCat("UserKnownHostsFile=", known));
  add("-p", std::string(port));
  add("-l", std::string(user));
  options.command.insert(options.command.end(), {"-s", "--", std::string(host), "sftp"});
  return std::make_shared<SftpStore>(std::move(options));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ObjectStore>> OpenStore(const std::string& place, const Environment& env) {
  if (!IsRemotePlace(place)) return OpenPlace(nullptr, place);
  if (absl::StartsWith(place, "dbfs:/")) return OpenVolume(place, env);
  if (absl::StartsWith(place, "https://") || absl::StartsWith(place, "http://")) return OpenHttp(place);
  RETURN_IF_ERROR(RefusePlace(place));
  if (absl::StartsWith(place, "sftp://")) return OpenSftp(place, env);
  ASSIGN_OR_RETURN(const Place parsed, ParsePlace(place));
  if (parsed.scheme == "s3") return OpenS3(parsed, env);
  if (parsed.scheme == "gs") return OpenGcs(parsed, env);
  if (parsed.scheme == "oci") return OpenOci(parsed, env);
  if (parsed.scheme == "azure") return OpenAzure(parsed, env);
  return absl::InvalidArgumentError(
      absl::StrCat("`", place,
                   "`: unknown scheme; there are a path, file://, s3://, gs://, oci://, azure://, "
                   "sftp://, dbfs:/Volumes/ and, to read, https://"));
}

}  // namespace composer
