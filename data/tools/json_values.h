// Values of JSON in MDS's encodings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "data/mds/encoding.h"

namespace composer {

// Returns the value as the encoding has it in a sample: kText, kBytes and kNumberText take texts, kNumber whole numbers
// or fractions in range, kArray a list of numbers, kJson anything. kInvalidArgument says what does not fit.
absl::StatusOr<std::string> EncodeJsonValue(const MdsEncoding& encoding, const nlohmann::json& value);

// Returns the encoding for values like this one: str, int, float64, ndarray:int64, ndarray:float32 or json.
std::string GuessEncoding(const nlohmann::json& value);

}  // namespace composer
