// SPDX-License-Identifier: Apache-2.0
#include "storage/identity/oci_config.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "storage/identity/aws_config.h"

namespace composer {
namespace {

constexpr int64_t kMostConfigBytes = 1 << 20;

// ~/x is below the home.
std::string FromHome(const std::string& path, const Environment& env) {
  return absl::StartsWith(path, "~/") ? JoinPath(env.GetOr("HOME", "/"), path.substr(2)) : path;
}

}  // namespace

std::string OciConfigFile(const Environment& env) {
  const std::string named = env.GetOr("OCI_CONFIG_FILE", "");
  return named.empty() ? JoinPath(env.GetOr("HOME", "/"), ".oci/config") : FromHome(named, env);
}

absl::StatusOr<OciProfile> ReadOciProfile(const Environment& env) {
  OciProfile profile;
  profile.file = OciConfigFile(env);
  profile.name = env.GetOr("OCI_CLI_PROFILE", "DEFAULT");
  const std::string where = absl::StrCat(profile.file, " [", profile.name, "]");
  ASSIGN_OR_RETURN(const std::string text, ReadFile(profile.file, kMostConfigBytes));
  const AwsSections sections = ParseAwsConfig(text);
  const auto section = sections.find(profile.name), common = sections.find("DEFAULT");
  if (section == sections.end()) return absl::NotFoundError(absl::StrCat(where, ": no such profile"));
  std::map<std::string, std::string> values = section->second;
  if (common != sections.end()) values.insert(common->second.begin(), common->second.end());
  if (values.count("security_token_file") > 0)
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": security_token_file: a session's token ends after an hour, before most runs do; ",
                     "name a profile with the user's own key in OCI_CLI_PROFILE"));
  for (const char* name : {"tenancy", "user", "fingerprint", "key_file"}) {
    if (values[name].empty()) return absl::InvalidArgumentError(absl::StrCat(where, ": ", name, ": missing"));
  }
  profile.region = values["region"];
  OciCredentials& found = profile.credentials;
  found = {values["tenancy"], values["user"], values["fingerprint"], "", values["pass_phrase"]};
  absl::StatusOr<std::string> key = ReadFile(FromHome(values["key_file"], env), kMostConfigBytes);
  if (!key.ok()) return absl::InvalidArgumentError(absl::StrCat(where, ": key_file: ", key.status().message()));
  found.private_key = *std::move(key);
  return profile;
}

}  // namespace composer
