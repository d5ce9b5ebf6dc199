// Composer's save_filename and save_latest_filename. Pure.
//
// A checkpoint is a folder, ep{epoch}-ba{batch}, with a file for each rank in it, and is found again by that name. A
// template of another name therefore makes a link (checkpoint/format/checkpoint_link.h): a file of that name that leads
// to the checkpoint, and that load_path takes. A folder in front without placeholders of the time is where checkpoints
// go, below save_folder. {rank} is 0: there is one checkpoint of all ranks, as with Composer's whole ones. Source:
// mosaicml composer/trainer/trainer.py, save_filename.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct CheckpointNames {
  std::string folder;  // below save_folder, with unfilled placeholders; "": save_folder itself
  std::string link;    // SaveOptions::save_filename
};

// kInvalidArgument says what is wrong with it and what is allowed.
absl::StatusOr<CheckpointNames> NamesOfSaveFilename(absl::string_view save_filename);
// `folder` comes from save_filename; a folder in the template must be the same. "" and "none" mean no hint.
absl::StatusOr<std::string> LatestKeyOf(absl::string_view save_latest_filename, absl::string_view folder);

}  // namespace composer
