// DeviceRead brings numbers from a device to the host with one wait, however many objects have some there: what a step
// must know of its kernels before it can go on is asked for once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace composer {

// Threads: one.
class DeviceRead {
 public:
  using Take = std::function<void(absl::Span<const double>)>;
  // `take` is called once with the elements of `numbers`, a real tensor: at once if it is on a CPU, else by Read. All
  // tensors that are not on a CPU must be on one device.
  void Add(at::Tensor numbers, Take take);
  // Waits for the device if there is something to read.
  void Read();
  // Read in two parts. Gather queues what brings the numbers together, [n] double on the device; undefined: there are
  // none. Hand waits for them and calls each `take`, as often as it is called: a graph computes the numbers again.
  at::Tensor Gather();
  void Hand(const at::Tensor& gathered) const;

 private:
  std::vector<std::pair<at::Tensor, Take>> parts_;
  std::vector<std::pair<size_t, Take>> gathered_;  // the number of elements
};

}  // namespace composer
