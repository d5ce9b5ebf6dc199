// These functions check JSON from outside before it is parsed. The JSON library accepts what we must not: duplicate
// keys (the last wins), nesting without limit (its destructor and dump recurse), a NUL byte as the end of the text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct JsonLimits {
  int max_depth = 64;
  int64_t max_values = int64_t{1} << 24;  // total of numbers, strings, literals, keys, objects and arrays
};

// Returns OK when `text` is one JSON value in valid UTF-8, surrounded only by white space, within the limits and
// without a key twice in one object; otherwise kDataLoss with the position and the reason. The text may then be given
// to nlohmann::json::parse.
absl::Status CheckJson(absl::string_view text, const JsonLimits& limits = {});

// Returns the JSON with sorted keys and no spaces. Returns kInvalidArgument when the text is not JSON as above.
absl::StatusOr<std::string> CanonicalJson(absl::string_view text);

// Returns the JSON string for `text`, quoted and escaped. Returns kInvalidArgument when it is not valid UTF-8.
absl::StatusOr<std::string> QuoteJson(absl::string_view text);

}  // namespace composer
