// A secret in a file that only its user can read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace composer {

// The content without white space around it. The group may read the file (Kubernetes' fsGroup), others may not, and only
// its owner may write it, who is us or root. kInvalidArgument, naming the file, otherwise.
absl::StatusOr<std::string> ReadToken(const std::string& path);

// As ReadToken; a file that is not there is made, with 256 random bits and mode 0600, whole or not at all, also on NFS:
// of several nodes that come at once all get the same. Folders are made with mode 0700.
absl::StatusOr<std::string> ReadOrMakeToken(const std::string& path);

}  // namespace composer
