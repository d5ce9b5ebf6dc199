// Samples of like length come together, so that batches padded to their longest sample have little padding.
//
// The epoch's order is taken in windows. Within one, samples are sorted by length and cut into buckets, and the buckets
// are shuffled. A window's order depends on (seed, epoch, window) alone: not on ranks, and not on the batch size, so
// that each sample comes once an epoch also when the batch size changes in mid-epoch.
// Source: torchtext's BucketIterator; transformers' group_by_length.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/core/dataset.h"

namespace composer {

struct LengthBucketOptions {
  int64_t window = 4096;  // samples; their lengths are read when the window begins
  int64_t size = 32;      // samples of a bucket: a divisor or a multiple of the global batch size is best
};

// Returns the same samples, with an order of their own. A sample's length is the bytes of its texts and the numbers in
// its tensors before transforms. `source` is of known size.
std::shared_ptr<const SampleSource> WithLengthBuckets(std::shared_ptr<const SampleSource> source,
                                                      const LengthBucketOptions& options);

}  // namespace composer
