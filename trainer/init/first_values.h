// FirstValues gives initial values to parameters without memory (device meta), one at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace composer {

// Thread-safe.
class FirstValues {
 public:
  virtual ~FirstValues() = default;
  // Returns whether the tensor has no values yet and they come from this object.
  virtual bool IsDeferred(const at::Tensor& tensor) const = 0;
  // Returns the values in new memory on the CPU. Requires IsDeferred(tensor); the tensor does not change.
  virtual at::Tensor Values(const at::Tensor& tensor) const = 0;
  // Returns the maximum bytes that Values needs, the result included.
  virtual int64_t BytesFor(const at::Tensor& tensor) const = 0;
  // Returns a fingerprint of everything that decides the values. Ranks with equal fingerprints have the same model.
  virtual uint64_t Fingerprint() const = 0;
};

}  // namespace composer
