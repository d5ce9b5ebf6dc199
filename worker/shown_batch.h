// A batch as text and pictures, for who wants to see what a model gets. Pure, but for waiting for a tensor's device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/batch.h"
#include "trainer/core/logger.h"
#include "trainer/core/tokenizer.h"

namespace composer {

// Returns the counts of a batch, and a line for each key with dtype and shape:
//   6 samples, 192 tokens; the loss counts 120
//     inputs          int64 [6, 32]
std::string DescribeBatch(const Batch& batch);

// Returns what a sample of the batch holds, lines of two spaces at least: the first numbers of each tensor, or of one
// that is not whole numbers its range; of rows of tokens their text; of targets how many the loss counts (those that
// are not -100) and their text, with … for what it does not count. Texts are made printable and cut after `characters`
// bytes; 0: never. `tokenizer` may be null.
std::string DescribeSample(const Batch& batch, int64_t row, const Tokenizer* tokenizer, int64_t characters);

// Puts images of one size into a grid, row by row and as square as it can be, one pixel apart. At least one image.
// kInvalidArgument when they differ in size or channels, or when the grid has more than 65,536 pixels a side.
absl::StatusOr<Image> GridOf(const std::vector<Image>& images);

}  // namespace composer
