// SPDX-License-Identifier: Apache-2.0
#include "storage/identity/aws_config.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr int64_t kMaxConfigBytes = 1 << 20;

void Merge(const AwsSections& sections, const std::string& name, AwsProfile& profile) {
  const auto section = sections.find(name);
  if (section == sections.end()) return;
  for (const auto& [key, value] : section->second) profile.values.try_emplace(key, value);
}

}  // namespace

AwsSections ParseAwsConfig(absl::string_view text) {
  AwsSections sections;
  std::string section;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    const absl::string_view line = absl::StripAsciiWhitespace(raw.substr(0, raw.find(" #")));
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      absl::string_view name = absl::StripAsciiWhitespace(line.substr(1, line.size() - 2));
      absl::ConsumePrefix(&name, "profile ");
      section = std::string(absl::StripAsciiWhitespace(name));
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == line.npos || section.empty() || absl::ascii_isspace(static_cast<unsigned char>(raw[0]))) continue;
    sections[section][absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, equals)))] =
        std::string(absl::StripAsciiWhitespace(line.substr(equals + 1)));
  }
  return sections;
}

std::string AwsProfile::Get(const std::string& key) const {
  const auto it = values.find(key);
  return it == values.end() ? "" : it->second;
}

AwsProfile ReadAwsProfile(const Environment& env) {
  AwsProfile profile;
  profile.name = env.GetOr("AWS_PROFILE", env.GetOr("AWS_DEFAULT_PROFILE", "default"));
  const std::string folder = JoinPath(env.GetOr("HOME", "/"), ".aws");
  profile.file = env.GetOr("AWS_SHARED_CREDENTIALS_FILE", JoinPath(folder, "credentials"));
  Merge(ParseAwsConfig(ReadFile(profile.file, kMaxConfigBytes).value_or("")), profile.name, profile);
  const std::string config = env.GetOr("AWS_CONFIG_FILE", JoinPath(folder, "config"));
  Merge(ParseAwsConfig(ReadFile(config, kMaxConfigBytes).value_or("")), profile.name, profile);
  return profile;
}

std::string AwsRegion(const Environment& env) {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (const std::string region = env.GetOr(name, ""); !region.empty()) return region;
  }
  const std::string region = ReadAwsProfile(env).Get("region");
  return region.empty() ? "us-east-1" : region;
}

}  // namespace composer
