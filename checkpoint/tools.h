// `composer checkpoint show|diff|verify`: looks at checkpoints and changes nothing.
//   show PATH      step, time, world size, size, tensors, small state
//   diff A B       tensors bit by bit, small state value by value (diff.h says what is ignored)
//   verify PATH    reads everything again and checks every checksum; of a folder, that of all checkpoints in it
// PATH is a checkpoint (`…/ep1-ba20`), its manifest.json, or a folder of checkpoints or of a run, which stands for its
// newest valid one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "storage/object_store.h"

namespace composer {

// `args` without program and `checkpoint`: {"diff", "a", "b"}. Returns the exit code:
// 0 done, equal, all valid; 1 different; 64 usage, or a path with nothing to read; 70 a checkpoint is damaged.
// open: for places that are URLs; empty: there are only paths.
int RunCheckpointTool(const std::vector<std::string>& args, const StoreOpener& open, std::ostream& out,
                      std::ostream& err);

}  // namespace composer
