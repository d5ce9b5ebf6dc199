// InitialWeights provides the initial values of a rank's piece of a parameter while a model is sharded. One parameter
// at a time is whole, and only on the ranks that hold a piece of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trainer/core/communicator.h"
#include "trainer/init/first_values.h"

namespace composer {

// Threads: one.
class InitialWeights {
 public:
  // `first` makes the parameters without values; null if all have theirs. from_rank_0 takes rank 0's values, not each
  // rank's own (sync_module_states); the constructor is then a collective. Ranks whose models were built by the same
  // operations have the same values anyway, and nothing is sent. `world` and `first` must outlive this object.
  InitialWeights(const FirstValues* first, Communicator& world, bool from_rank_0);

  // Returns the parameter's whole initial value, on any device. A collective when weights are sent. With needed ==
  // false the result is undefined unless it must be made for others.
  at::Tensor Values(const at::Tensor& param, bool needed) const;
  // Returns the maximum bytes that Values needs besides the parameter.
  int64_t BytesFor(const at::Tensor& param) const;

 private:
  const FirstValues* first_;
  Communicator& world_;
  bool sends_;           // parameters that have values are sent
  bool sends_deferred_;  // those without values are sent
};

}  // namespace composer
