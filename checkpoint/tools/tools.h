// This is `composer checkpoint …`, which examines checkpoints, and imports and exports weights.
//   list FOLDER [--json] [--verify]      the checkpoints of a folder: step, size, state, age
//   show PATH                            step, time, world size, size, tensors, small state
//   verify PATH                          reads everything again and checks every checksum; of a folder, that of all
//   diff A B                             tensors bit by bit, small state value by value (diff.h says what is ignored)
//   export PATH OUT                      the model's weights as Hugging Face safetensors (tools/weight_export.h);
//                                        --adapter: what LoRA trained, for peft (tools/lora_export.h)
//   import SRC FOLDER                    safetensors or torch.save weights as a checkpoint (tools/weight_files.h)
//   prune FOLDER --keep N [--dry-run] [--force]  deletes all but the newest (tools/prune_plan.h)
// PATH is a checkpoint (`…/ep1-ba20`), its manifest.json, or a folder of checkpoints or of a run, which stands for its
// newest valid one. docs/checkpoints.md is for users.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "storage/object_store.h"

namespace composer {

// `args` excludes the program and `checkpoint`: {"diff", "a", "b"}. Returns the exit code: 0 done, equal, all valid; 1
// different; 64 usage, or a path with nothing to read; 70 a checkpoint is damaged; 75 not now, since a run may be
// saving there. `open` opens places that are URLs; if empty, only paths are allowed. Ages are relative to `now`.
int RunCheckpointTool(const std::vector<std::string>& args, const StoreOpener& open, absl::Time now, std::ostream& out,
                      std::ostream& err);

}  // namespace composer
