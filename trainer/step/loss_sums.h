// LossSums adds up the weighted losses of a step's microbatches. On a GPU the sums stay there until they are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "trainer/step/step_message.h"

namespace composer {

class LossSums {
 public:
  using Parts = std::vector<std::pair<std::string, at::Tensor>>;

  void Reset();
  // Adds weight * loss, and weight * each part (the first StepMessage::kMaxLossParts). All are scalars.
  void Add(double weight, const at::Tensor& loss, const Parts& parts);
  // Waits for the GPU.
  double total();
  const std::array<double, StepMessage::kMaxLossParts>& parts();
  // Returns the names of the parts, taken from the first Add that had any.
  const std::vector<std::string>& part_names() const { return part_names_; }

 private:
  void ReadDevice();

  std::array<double, 1 + StepMessage::kMaxLossParts> sums_{};  // total, then parts
  std::array<double, StepMessage::kMaxLossParts> parts_{};
  at::Tensor on_device_;  // same layout, double, not yet in sums_
  std::vector<std::string> part_names_;
};

}  // namespace composer
