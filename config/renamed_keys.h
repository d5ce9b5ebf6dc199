// Top-level keys that older Composers, llm-foundry or other trainers use and what to write instead. What has no key at
// all is in missing_keys.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "config/node.h"

namespace composer {

// Returns the key that a foreign top-level name is a synonym of: "optimizers" for `optimizer`, "train_dataloader" for
// `train_loader`; "" for all others.
std::string AcceptedKey(absl::string_view top_key);

// Renames a document's foreign top-level keys to the names that they stand for, and passes `device_eval_batch_size` to
// the evaluations as their batch_size. kInvalidArgument when both names are present.
absl::Status AcceptForeignKeys(ConfigNode& root);

// Returns "use `device_train_microbatch_size`: the samples of one microbatch, not their number" for a key with an old
// or foreign name, "leave it out: …" for one that is not needed, "" for all others. `path` is dotted, from the top of
// the document.
std::string RenamedKeyAdvice(absl::string_view path);

}  // namespace composer
