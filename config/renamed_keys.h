// Keys of a job's top that older Composers, llm-foundry or other trainers use and what to write instead; and
// arguments of
// Composer's Trainer that have no key here, and why.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "config/node.h"

namespace composer {

// The key that a foreign name of the top simply stands for: "optimizers" for `optimizer`, "train_dataloader" for
// `train_loader`; "" for all others.
std::string AcceptedKey(absl::string_view top_key);

// Gives the keys of a document's top the names that they stand for, and hands `device_eval_batch_size` to the
// evaluations as their batch_size.
// kInvalidArgument when both names are there.
absl::Status AcceptForeignKeys(ConfigNode& root);

// "use `device_train_microbatch_size`: the samples of one microbatch, not their number" for a key with an old or
// foreign
// name, "leave it out: …" for one that is not needed, "" for all others. path: dotted, from the top of the document.
std::string RenamedKeyAdvice(absl::string_view path);

}  // namespace composer
