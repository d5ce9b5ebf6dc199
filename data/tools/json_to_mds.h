// Writes JSON lines as an MDS data set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "data/mds/encoding.h"
#include "data/mds/writer.h"

namespace composer {

// Returns the value as the encoding has it in a sample: kText, kBytes and kNumberText take texts, kNumber whole numbers
// or fractions in range, kArray a list of numbers, kJson anything. kInvalidArgument says what does not fit.
absl::StatusOr<std::string> EncodeJsonValue(const MdsEncoding& encoding, const nlohmann::json& value);

// Returns the encoding for values like this one: str, int, float64, ndarray:int64, ndarray:float32 or json.
std::string GuessEncoding(const nlohmann::json& value);

// Writes each line of `lines`, an object, as a sample. Without options.columns, those of the first line with guessed
// encodings are taken. Keys that are no column are left out. `progress` is called after each sample. Returns the number
// of samples; kInvalidArgument names the line and the key.
absl::StatusOr<int64_t> WriteJsonLines(std::istream& lines, std::shared_ptr<ObjectStore> store,
                                       MdsWriterOptions options,
                                       const std::function<void(int64_t samples)>& progress = nullptr);

}  // namespace composer
