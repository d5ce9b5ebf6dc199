// FirstState is what a run begins with, kept while a checkpoint is loaded over it. A checkpoint is read once: its bytes
// are verified as they arrive, in the tensors of the run. If it turns out to be damaged and there is no other, the run
// begins with the very values that it had.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/core/state.h"

namespace composer {

class FirstState {
 public:
  // Copies all tensors that a checkpoint is loaded into. Those that are zero, like an optimizer's state, take no
  // memory; the others are copied to host memory, in all this rank's share of the weights. Returns nullopt if they
  // exceed max_bytes.
  static std::optional<FirstState> Copy(const State& state, int64_t max_bytes);
  // Copies the values back into the same tensors and resets the algorithms.
  absl::Status Restore(State& state) const;

 private:
  struct Kept {
    at::Tensor tensor;
    at::Tensor copy;  // undefined: zeros
  };
  std::vector<Kept> kept_;
};

// Returns the bytes that a copy may take on each of world_size ranks: half of the machine's free memory, as if all were
// on it, but at most a quarter of what RLIMIT_DATA leaves.
int64_t FirstStateLimit(int world_size);

}  // namespace composer
