// A text as a language-model dataset, a token a byte (256 of them).
// Sample i of T tokens: inputs bytes [i*T, i*T + T), targets the bytes one further on.
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
  std::vector<std::string> paths;  // files, plain or gzip, joined in this order; 4 GiB together at most
  int64_t context = 128;           // T, at least 1
  double eval_fraction = 0.1;      // the end of the text that only the evaluation reads, in [0, 1)
  DataSplit split = DataSplit::kTrain;
};

// inputs and targets int64 [B, T], num_tokens = B*T. The bytes after the last full sample of a split are left out.
// kInvalidArgument when the split has not one sample.
absl::StatusOr<std::shared_ptr<const Dataset>> LoadTextBytes(const TextBytesOptions& options);

// The same from memory.
absl::StatusOr<std::shared_ptr<const Dataset>> MakeTextBytes(std::string text, const TextBytesOptions& options);

}  // namespace composer
