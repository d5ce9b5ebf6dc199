// A text as a language-model dataset with one token per byte (a vocabulary of 256).
// Sample i of T tokens has the bytes [i*T, i*T + T) as inputs, and the bytes shifted by one as targets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/dataset.h"
#include "trainer/data/split.h"

namespace composer {

inline constexpr int64_t kByteVocabulary = 256;

struct TextBytesOptions {
  std::vector<std::string> paths;  // plain or gzip files, joined in this order; at most 4 GiB together
  int64_t context = 128;           // T, at least 1
  double eval_fraction = 0.1;      // the end of the text that only the evaluation reads, in [0, 1)
  DataSplit split = DataSplit::kTrain;
};

// Yields inputs and targets int64 [B, T] and num_tokens = B*T. The bytes after the last full sample of a split are left
// out. Returns kInvalidArgument when the split has no full sample.
absl::StatusOr<std::shared_ptr<const Dataset>> LoadTextBytes(const TextBytesOptions& options);

// Same as LoadTextBytes, from memory.
absl::StatusOr<std::shared_ptr<const Dataset>> MakeTextBytes(std::string text, const TextBytesOptions& options);

}  // namespace composer
