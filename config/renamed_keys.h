// Keys of a job's top that older Composers, llm-foundry or other trainers use and what to write instead; and arguments of
// Composer's Trainer that have no key here, and why.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// "use `device_train_microbatch_size`: the samples of one microbatch, not their number" for a key with an old or foreign
// name, "leave it out: …" for one that is not needed, "" for all others. path: dotted, from the top of the document.
std::string RenamedKeyAdvice(absl::string_view path);

}  // namespace composer
