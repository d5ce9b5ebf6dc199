// What users of Composer, llm-foundry and DeepSpeed write and this program does not have: why, and the way out. The one
// table of refusals; tools/check_parity.py holds it to mosaicml's arguments and classes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// Returns "leave it out: …" for a key that is not here, "" for all others. `path` is dotted, from the top of the
// document; indexes of lists do not count.
std::string MissingKeyReason(absl::string_view path);

// Returns "it needs its Python client; …" for a named thing (a kind of config/schema.h: logger, callback, model …) that
// is not here, "" for all others. Class names and names in small letters are the same.
std::string MissingNameReason(absl::string_view kind, absl::string_view name);

// Returns what to write instead of a device or precision of other machines ("tpu", "fp8"); "" for others.
std::string MissingChoiceReason(absl::string_view path, absl::string_view value);

}  // namespace composer
