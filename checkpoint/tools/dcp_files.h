// This reads tensors of a folder that torch.distributed.checkpoint (DCP) wrote: dcp.save, FSDP's sharded checkpoints,
// those of the Python Composer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "checkpoint/tools/weight_files.h"

namespace composer {

// Returns whether the folder has a `.metadata`.
bool IsDcpFolder(const std::string& folder);

// Appends the tensors below `key` ("a/b" is a state dict's ["a"]["b"]; "" is the place where a model's are taken to
// be), each put together from its parts, with what was left out as a note. Returns kDataLoss if something is damaged or
// missing; kInvalidArgument for what is not read, and a key with no tensors.
absl::Status ReadDcpFolder(const std::string& folder, absl::string_view key, ImportedWeights* weights);

}  // namespace composer
