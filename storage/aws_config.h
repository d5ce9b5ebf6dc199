// The files ~/.aws/credentials and ~/.aws/config. Pure.
// Source: docs.aws.amazon.com/sdkref/latest/guide/file-format.html.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

// Section -> key -> value. Lines that are no key are passed over, as AWS's tools do; in config a section is "profile
// name" but for "default": here both are "name".
using AwsSections = std::map<std::string, std::map<std::string, std::string>>;
AwsSections ParseAwsConfig(absl::string_view text);

// What a profile says, credentials over config. AWS_PROFILE chooses, AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE
// say where; files that are not there are empty.
struct AwsProfile {
  std::string name;
  std::map<std::string, std::string> values;
  std::string file;  // of the credentials
  std::string Get(const std::string& key) const;
};
AwsProfile ReadAwsProfile(const Environment& env);

// AWS_REGION, AWS_DEFAULT_REGION, the profile's region, else us-east-1.
std::string AwsRegion(const Environment& env);

}  // namespace composer
