// Where parameters without memory (device meta) get their first values from, one at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace composer {

// Threads: any number at once.
class FirstValues {
 public:
  virtual ~FirstValues() = default;
  // No values yet, and they come from here?
  virtual bool IsDeferred(const at::Tensor& tensor) const = 0;
  // New memory on the CPU. The tensor: one that IsDeferred; it stays as it is.
  virtual at::Tensor Values(const at::Tensor& tensor) const = 0;
  // What Values needs at most, the result included.
  virtual int64_t BytesFor(const at::Tensor& tensor) const = 0;
  // Of everything that decides the values. Ranks with the same have the same model.
  virtual uint64_t Fingerprint() const = 0;
};

}  // namespace composer
