// Reads the files ~/.aws/credentials and ~/.aws/config. The parser is pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

// Maps section -> key -> value. Skips lines that are not keys, as AWS's tools do. In ~/.aws/config a section other than
// "default" is called "profile name"; here both forms are "name".
using AwsSections = std::map<std::string, std::map<std::string, std::string>>;
AwsSections ParseAwsConfig(absl::string_view text);

// The settings of a profile; credentials take precedence over config. AWS_PROFILE chooses the profile,
// AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE the files; missing files count as empty.
struct AwsProfile {
  std::string name;
  std::map<std::string, std::string> values;
  std::string file;  // the credentials file
  std::string Get(const std::string& key) const;
};
AwsProfile ReadAwsProfile(const Environment& env);

// Returns AWS_REGION, AWS_DEFAULT_REGION, the profile's region, else us-east-1.
std::string AwsRegion(const Environment& env);

}  // namespace composer
