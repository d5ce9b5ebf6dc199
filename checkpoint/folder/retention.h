// Retention decides which checkpoints to delete after one was committed. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "checkpoint/format/checkpoint_name.h"

namespace composer {

// Returns those of `committed` (in any order) to delete, oldest first, so that the newest `keep` remain, always
// including `just_saved`. keep < 0 keeps all; keep 0 counts as 1. Those newer than just_saved are neither counted nor
// deleted: training fell back behind them, so they were refused, and each is replaced when its step is reached again.
std::vector<CheckpointName> CheckpointsToDelete(std::vector<CheckpointName> committed, CheckpointName just_saved,
                                                int keep);

}  // namespace composer
