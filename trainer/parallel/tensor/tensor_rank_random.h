// A tensor-parallel rank has random numbers of its own inside the model. The default generators are alike on all ranks
// of a group, so that what changes the batch (an algorithm) does so alike; inside the model ranks have other tokens and
// heads and need other masks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/communicator.h"
#include "trainer/parallel/activations/forward_conditions.h"

namespace composer {

// Seeds the default generators for a scope with a draw from the CPU's generator and the place in the group; afterwards
// they continue from the state after that draw.
class TensorRankRandomScope {
 public:
  explicit TensorRankRandomScope(const Communicator& group);
  TensorRankRandomScope(const TensorRankRandomScope&) = delete;
  TensorRankRandomScope& operator=(const TensorRankRandomScope&) = delete;

 private:
  uint64_t draw_;
  ForwardConditionsScope conditions_;
};

}  // namespace composer
