// Where a rank's piece of a parameter gets its first values from, as a model is sharded: a parameter at a time is whole,
// and on the ranks that hold a piece of it only.
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
  // first: of the parameters without values; null: all have theirs. from_rank_0: rank 0's values, not each rank's own
  // (sync_module_states). Then a collective: ranks whose models were built by the same operations have the same values
  // anyway, and nothing need be sent. `world` and first must outlive this.
  InitialWeights(const FirstValues* first, Communicator& world, bool from_rank_0);

  // What it is from now on: whole, on any device. A collective when weights are sent. needed: false gives an undefined
  // tensor when nothing must be made for others either.
  at::Tensor Values(const at::Tensor& param, bool needed) const;
  // What Values needs besides the parameter, at most.
  int64_t BytesFor(const at::Tensor& param) const;

 private:
  const FirstValues* first_;
  Communicator& world_;
  bool sends_;           // parameters that have values
  bool sends_deferred_;  // those that have none yet
};

}  // namespace composer
