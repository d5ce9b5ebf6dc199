// What a run begins with, kept while a checkpoint is loaded over it. A checkpoint is read once: its bytes are verified as
// they arrive, in the tensors of the run. When one turns out damaged, and there is no other, the run begins anew, with
// the very values that it had.
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
  // Of all tensors that a checkpoint is loaded into. Those that are zero, as an optimizer's state is, take no memory; the
  // others are copied to host memory: as much as the weights, of which this rank's share. nullopt: more than max_bytes.
  static std::optional<FirstState> Copy(const State& state, int64_t max_bytes);
  // Back into the same tensors; algorithms begin anew.
  absl::Status Restore(State& state) const;

 private:
  struct Kept {
    at::Tensor tensor;
    at::Tensor copy;  // undefined: zeros
  };
  std::vector<Kept> kept_;
};

// Bytes that a copy may take on each rank of so many: half of the machine's free memory, as if all were on it, and a
// quarter of what RLIMIT_DATA leaves.
int64_t FirstStateLimit(int world_size);

}  // namespace composer
