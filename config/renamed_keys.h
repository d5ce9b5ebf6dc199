// Keys that older Composers or other trainers use, and what to write instead.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// "renamed; use `device_train_microbatch_size` …" for a key with an old or foreign name, "" for all others.
// path: dotted, from the top of the document.
std::string RenamedKeyAdvice(absl::string_view path);

}  // namespace composer
