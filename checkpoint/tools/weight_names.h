// These functions handle names of weights on their way in and out of a checkpoint. Pure. In a checkpoint a model's
// tensor is `model/{name}`; elsewhere it is `{name}`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace composer {

inline constexpr absl::string_view kModelPrefix = "model/";

// A RenameRule is a prefix of names and its replacement; either may be empty.
struct RenameRule {
  std::string from, to;
};
// Parses "module.=" to {"module.", ""}. Returns kInvalidArgument without a '='.
absl::StatusOr<RenameRule> ParseRenameRule(absl::string_view text);

// Applies the first rule that matches; returns the name unchanged if none does.
std::string Renamed(absl::string_view name, absl::Span<const RenameRule> rules);
// Returns kInvalidArgument for a rule that matches no name (a typing error), or two names that became one.
absl::Status CheckRenamed(absl::Span<const std::string> before, absl::Span<const std::string> after,
                          absl::Span<const RenameRule> rules);

// Returns how many of the tensors, in order, go into each file of at most max_bytes; a larger one gets a file of its
// own.
std::vector<size_t> SplitBySize(absl::Span<const int64_t> bytes, int64_t max_bytes);

// Parses "5GB", "200MB", "1e9", "512KiB" to bytes, at least 1: the units of Hugging Face's max_shard_size (powers of
// 1000; KiB, MiB, GiB of 1024).
absl::StatusOr<int64_t> ParseByteSize(absl::string_view text);

// Returns the files that Hugging Face's `model.safetensors.index.json` (or `pytorch_model.bin.index.json`) names, each
// once, in order of their names. Returns kDataLoss if it is not such JSON, or a file name has a folder in it. Fuzzed:
// tests/fuzz/weight_index_fuzz.cc.
absl::StatusOr<std::vector<std::string>> FilesOfWeightIndex(absl::string_view json);

}  // namespace composer
