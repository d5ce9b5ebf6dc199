// Failures that nothing in the job can mend and an operator can: a full disk, a spent quota, a file system that became
// read-only, a disk or file server that does not answer. Found by the kernel's words in what a worker said last, whichever
// library or language has passed them on. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace composer {

struct OutsideFault {
  std::string what;  // "No space left on device"
  std::string path;  // absolute, of the file or folder; "": not said
};

// "cannot write /a/b: No space left on device", "OSError: [Errno 28] No space left on device: '/a/b'".
std::optional<OutsideFault> FindOutsideFault(absl::string_view text);

// For what the launcher itself meets.
inline bool IsOutsideFault(const absl::Status& status) {
  return !status.ok() && FindOutsideFault(status.message()).has_value();
}

// Whether a file of 1 MiB can be made and filled where `path` is, or, when that is not there, in the nearest folder above.
// True also where nothing can be said, as when the folder is not ours to write in. Leaves nothing. Not pure; may block as
// long as the file system does.
bool HasRoom(const std::string& path);

}  // namespace composer
