// Files and folders that only their owner may read, since they may hold secrets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace composer {

// Like AtomicWriteFile (file.h), with mode 0600 from the first byte on.
absl::Status WritePrivateFile(const std::string& path, absl::string_view content);

// Makes the folder with mode 0700, and its parents like MakeDirs. An existing folder keeps its mode.
absl::Status MakePrivateDir(const std::string& path);

}  // namespace composer
