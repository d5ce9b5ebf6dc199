// Models whose loss compares samples of all ranks with each other, as in-batch negatives do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/core/communicator.h"

namespace composer {

// A model derives from this beside Model. Its loss then runs collectives, so that every rank must compute it as often
// as the others, with as many samples: the trainer refuses settings that differ from that.
class AcrossRanks {
 public:
  virtual ~AcrossRanks() = default;
  // Whether the loss needs the other ranks' samples.
  virtual bool needs_ranks() const = 0;
  // The ranks that see different samples; null outside of a run. Set by the trainer.
  Communicator* data_ranks = nullptr;
};

// Returns the rows [n, *] of all ranks, [ranks * n, *], in the order of ranks. Backward gives each rank the sum over
// ranks of what they found for its rows. A collective, as backward is; ranks must live until then.
at::Tensor GatherRows(const at::Tensor& rows, Communicator& ranks);

}  // namespace composer
