// A Dataset is a finite, indexable set of samples.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "trainer/core/batch.h"

namespace composer {

// Threads: Load may be called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Returns the samples with these indices, each in [0, size()), in this order. Pure: the same indices give the same
  // batch. An empty list gives a batch with B = 0 and tensors of the right trailing shape and dtype. Throws
  // (c10::Error), naming the sample, when one cannot be read.
  virtual Batch Load(absl::Span<const int64_t> indices) const = 0;
};

}  // namespace composer
