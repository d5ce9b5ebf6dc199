// This makes of a Python Composer's checkpoint what a run here goes on from: the state of its optimizer and the time,
// beside the weights.
//
// Taken over are the states of SGD, DecoupledSGDW, Adam, AdamW and DecoupledAdamW: what is
// `state/optimizers/…/{p}/exp_avg` there is `optimizer/{p}/exp_avg` here, and the numbers of steps of a group are one
// tensor, `optimizer/group0/step`. Schedules and random numbers follow from the time here; the order of samples is this
// library's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/format/checkpoint_name.h"
#include "checkpoint/format/state_dict.h"
#include "checkpoint/tools/weight_names.h"

namespace composer {

struct ComposerProgress {
  StateDict state;                 // optimizer/…, and the small state `timestamp` and `scaler`; no weights
  CheckpointName step;             // epoch and batch
  int64_t samples = 0;             // trained on so far
  std::vector<std::string> notes;  // for people: what was left out
};

// Returns nullopt if the file is not a checkpoint of Composer's. `model` has the weights that were read from the same
// file, with the names there: a parameter of the optimizer that has no state yet gets zeros of its shape. Returns
// kInvalidArgument for an optimizer that is not listed above.
absl::StatusOr<std::optional<ComposerProgress>> ReadComposerProgress(
    const std::string& path, absl::Span<const std::pair<std::string, at::Tensor>> model,
    const std::vector<RenameRule>& rules);

}  // namespace composer
