// This writes a checkpoint as a folder that torch.distributed.checkpoint's dcp.load reads, on any number of ranks:
// {"model": …, "optimizer": {"state", "param_groups"}}, the second as get_optimizer_state_dict names it. Read by
// dcp_files.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/tools/composer_export.h"
#include "storage/object_store.h"

namespace composer {

// Reads the checkpoint, checks every checksum, and writes `folder`: one file of tensors, then `.metadata`, so that a
// folder that was not finished is none that torch opens. Everything is in memory. Returns notes for people: what was
// left out. Returns kAlreadyExists if the folder has a `.metadata` and `overwrite` is not set; kFailedPrecondition for
// an optimizer that is not written (torch_optimizer.h).
absl::StatusOr<std::vector<std::string>> ExportAsDcp(ObjectStore& from, const std::string& checkpoint,
                                                     const std::string& folder, const ComposerExportOptions& options);

}  // namespace composer
