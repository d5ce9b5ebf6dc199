// LossSums adds up the weighted losses of a step's microbatches. On a GPU the sums stay there until they are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "trainer/step/device_read.h"

namespace composer {

class LossSums {
 public:
  using Parts = std::vector<std::pair<std::string, at::Tensor>>;

  void Reset();
  // Adds weight * loss, and weight * each part. All are scalars; the parts have the same order in every call.
  void Add(double weight, const at::Tensor& loss, const Parts& parts);
  // Has what is on a GPU read with other numbers; until then it is missing in the sums.
  void ReadWith(DeviceRead& read);
  // Returns whether a GPU has everything that was added.
  bool on_device() const;
  // Moves it from there into `place`, [1 + parts] double on the same GPU, without waiting.
  void MoveTo(const at::Tensor& place);
  // Waits for the GPU, unless everything was read.
  double total();
  // Likewise. As long as part_names(), hence empty before the first Add that had parts.
  const std::vector<double>& parts();
  // Returns the names of the parts, taken from the first Add that had any.
  const std::vector<std::string>& part_names() const { return part_names_; }

 private:
  void ReadDevice();

  double total_ = 0;
  std::vector<double> parts_;
  at::Tensor on_device_;  // total, then parts, in double; not yet in the sums
  std::vector<std::string> part_names_;
};

}  // namespace composer
