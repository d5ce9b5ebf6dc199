// Composer's save_filename and save_latest_filename, as far as they have a meaning here. Pure.
//
// A checkpoint is a folder, ep{epoch}-ba{batch}, with a file for each rank in it, and it is found again by that name. A
// template may therefore say which folder checkpoints go into (below save_folder; {run_name} and the like are filled
// in), and must then name epoch and batch in this way; "-rank{rank}" and an extension are allowed, since Composer's own
// default has them, but mean nothing. Source: mosaicml composer/trainer/trainer.py, save_filename.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct CheckpointNames {
  std::string folder;             // below save_folder, with unfilled placeholders; "": save_folder itself
  std::string latest = "latest";  // the hint's key; "": none is written
};

// kInvalidArgument says what is wrong with it and what is allowed.
absl::StatusOr<std::string> FolderOfSaveFilename(absl::string_view save_filename);
// `folder` comes from save_filename; a folder in the template must be the same. "" and "none" mean no hint.
absl::StatusOr<std::string> LatestKeyOf(absl::string_view save_latest_filename, absl::string_view folder);

}  // namespace composer
