// This writes a checkpoint as a file of torch.save that the Python Composer (mosaicml) goes on from, and torch.load
// opens: {"state": {"model", "optimizers", "timestamp", "scaler", "rank_zero_seed", "run_name"}}. It is the counterpart
// of composer_import.h and takes the same optimizers: SGD, DecoupledSGDW, Adam, AdamW, DecoupledAdamW.
// Source: mosaicml composer/core/state.py, State.load_state_dict().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/format/state_dict.h"
#include "checkpoint/tools/weight_names.h"
#include "storage/object_store.h"

namespace composer {

struct ComposerExportOptions {
  std::vector<RenameRule> renames;      // applied to the model's names, wherever they occur
  bool weights_only = false;            // only {"state": {"model"}}
  std::optional<at::ScalarType> dtype;  // with weights_only: of floating-point tensors; others keep theirs
  bool overwrite = false;
};

// Returns the model's tensors under the names that the options give them. kInvalidArgument without any, or for a rename
// that fits none.
absl::StatusOr<std::vector<std::pair<std::string, at::Tensor>>> ModelForTorch(const StateDict& state,
                                                                              const ComposerExportOptions& options);

// What files of torch's have no place for, for people.
std::vector<std::string> NotesOfExport(const StateDict& state, bool weights_only);

// Reads the checkpoint, checks every checksum, and writes the file at once or not at all, packed where its name says so
// (packed_file.h). Everything is in memory.
// Returns notes for people: what was left out. Returns kAlreadyExists when the file exists and `overwrite` is not set;
// kFailedPrecondition for a checkpoint whose optimizer is none of those, or is not named in it, as by earlier versions.
absl::StatusOr<std::vector<std::string>> ExportForComposer(ObjectStore& from, const std::string& checkpoint,
                                                           const std::string& path,
                                                           const ComposerExportOptions& options);

}  // namespace composer
