// A secret in a file that only its user can read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace composer {

// Returns the content without surrounding white space. The group may read the file (Kubernetes' fsGroup), others may
// not. Its owner, who must be us or root, must be the only one to write it. Otherwise returns kInvalidArgument, naming
// the file.
absl::StatusOr<std::string> ReadToken(const std::string& path);

// As ReadToken, but creates a missing file with 256 random bits and mode 0600, atomically even on NFS, so that all of
// several nodes that start at once get the same token. Folders are created with mode 0700.
absl::StatusOr<std::string> ReadOrMakeToken(const std::string& path);

}  // namespace composer
