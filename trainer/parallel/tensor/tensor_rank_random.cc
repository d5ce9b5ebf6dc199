// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/tensor_rank_random.h"

#include <torch/types.h>

#include <limits>

#include "trainer/core/random.h"

namespace composer {

TensorRankRandomScope::TensorRankRandomScope(const Communicator& group)
    : draw_(static_cast<uint64_t>(at::randint(std::numeric_limits<int64_t>::max(), {1}, at::kLong).item<int64_t>())),
      conditions_(ForwardConditions(group.device())) {
  torch::manual_seed(MixSeed(draw_, static_cast<uint64_t>(group.rank()), 0));
}

}  // namespace composer
