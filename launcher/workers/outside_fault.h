// Failures that nothing in the job can fix but an operator can: a full disk, an exceeded quota, a file system that
// became read-only, a disk or file server that does not answer. They are recognised by the kernel's error text in a
// worker's last message, whichever library or language passed it on. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace composer {

struct OutsideFault {
  std::string what;  // "No space left on device"
  std::string path;  // absolute, of the file or folder; "" if not stated
};

// Parses texts such as "cannot write /a/b: No space left on device" and "OSError: [Errno 28] No space left on device:
// '/a/b'".
std::optional<OutsideFault> FindOutsideFault(absl::string_view text);

// Same for a status of the launcher's own.
inline bool IsOutsideFault(const absl::Status& status) {
  return !status.ok() && FindOutsideFault(status.message()).has_value();
}

// Returns whether a file of 1 MiB can be created and filled at `path` or, if that does not exist, in the nearest
// existing parent folder. Also returns true where this cannot be determined, for example when we may not write to the
// folder. Leaves no file behind. Not pure; may block as long as the file system does.
bool HasRoom(const std::string& path);

}  // namespace composer
