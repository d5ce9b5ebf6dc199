// A CheckpointPlace is what a user means by the path of a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/object_store.h"

namespace composer {

struct CheckpointPlace {
  std::shared_ptr<ObjectStore> store;  // the folder of checkpoints
  std::string checkpoint;              // `ep1-ba20`; "": the path was that of a folder of checkpoints or of a run
};

// `path` names a checkpoint (`…/ep1-ba20`), its manifest.json, a folder of checkpoints, the file `latest` in it (of
// another name: only as a path), which means the same, a link to a checkpoint, or a run folder; it is a path or, if
// `open` handles it, a URL. Returns kNotFound when there is no such folder, kInvalidArgument with advice for another
// file. Reads no checkpoint.
absl::StatusOr<CheckpointPlace> FindCheckpointPlace(const std::string& path, const StoreOpener& open = nullptr);

}  // namespace composer
