// Reads JSON text into nlohmann's values. The library's parser is a template that every including source would compile
// again; it is compiled once here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"

namespace composer {

// Returns the value that `text` holds, or a discarded one (is_discarded()) when it is not JSON. Neither depth nor size
// is limited: text from outside is checked first (checkpoint/format/json_text.h) or is short.
nlohmann::json ParseJson(absl::string_view text);

// The same, with the members of objects in the order of the text.
nlohmann::ordered_json ParseOrderedJson(absl::string_view text);

}  // namespace composer
