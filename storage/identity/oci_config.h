// Reads Oracle's file of users and keys, ~/.oci/config, as its own clients do.
// Source: docs.oracle.com/iaas/Content/API/Concepts/sdkconfig.htm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "storage/identity/oci_signature.h"

namespace composer {

struct OciProfile {
  std::string file, name;
  std::string region;
  OciCredentials credentials;
};

// Returns OCI_CONFIG_FILE, else ~/.oci/config.
std::string OciConfigFile(const Environment& env);

// Reads the profile that OCI_CLI_PROFILE names, else DEFAULT, whose settings hold for all others; and its key_file. A
// file or profile that is not there is kNotFound; a setting that is missing, or a session's token in place of a key,
// kInvalidArgument, named with the file.
absl::StatusOr<OciProfile> ReadOciProfile(const Environment& env);

}  // namespace composer
