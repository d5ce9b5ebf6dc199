// Batches of one stream each, in random order: what per_stream and device_per_stream batching share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "data/order/numpy_generator.h"

namespace composer {

// What one node serves of one stream, and how many full batches the package makes of it with its repeats.
struct StreamPart {
  std::vector<uint32_t> ids;
  int64_t batches = 0;
};

// Returns batches of `size` ids each, in the order that the package draws: the n-th batch that falls to a stream is the
// n-th of its part. Batches that the ids do not fill are left out. `rest` gets the ids that are in no batch.
std::vector<std::vector<uint32_t>> DrawBatches(const std::vector<StreamPart>& parts, int64_t size,
                                               NumpyGenerator& random, std::vector<uint32_t>& rest);

}  // namespace composer
