// SPDX-License-Identifier: Apache-2.0
#include "fault/dying_file_system.h"

#include <signal.h>
#include <unistd.h>

#include "absl/strings/match.h"

namespace composer {

absl::Status DyingFileSystem::WriteNewFile(const std::string& path, absl::Span<const absl::string_view> pieces) {
  if (!absl::StrContains(path, path_part_)) return files_.WriteNewFile(path, pieces);
  const absl::string_view first = pieces.empty() ? absl::string_view() : pieces[0];
  const absl::string_view half = first.substr(0, first.size() / 2);
  const absl::Status status = files_.WriteNewFile(path, {half});
  kill(getpid(), SIGKILL);
  return status;
}

}  // namespace composer
