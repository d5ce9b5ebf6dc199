// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_place.h"

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {

absl::StatusOr<CheckpointPlace> FindCheckpointPlace(const std::string& argument) {
  std::string path = AbsolutePath(argument);
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (BaseName(path) == "manifest.json") path = DirName(path);
  if (!IsDirectory(path)) return absl::NotFoundError(absl::StrCat("there is no folder ", path));
  if (PathExists(JoinPath(path, "manifest.json"))) {
    const std::string name = BaseName(path);
    RETURN_IF_ERROR(CheckKey(name));
    return CheckpointPlace{std::make_unique<LocalStore>(DirName(path)), name};
  }
  const std::string of_run = JoinPath(path, "checkpoints");
  return CheckpointPlace{std::make_unique<LocalStore>(IsDirectory(of_run) ? of_run : path), ""};
}

}  // namespace composer
