// TreeAccumulator sums a stream of terms in the order of TreeSum without keeping them all: with a binary counter of
// partial sums, at most log2(n) + 1 of n terms are in memory.
//
// A term is a list of tensors (gradients; an undefined one stands for zeros). All terms have the same shapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace composer {

// Threads: one.
class TreeAccumulator {
 public:
  using Term = std::vector<at::Tensor>;  // float32; the accumulator owns their memory

  // Adds the next term of the sum.
  void Add(Term term);
  // Returns the sum of all terms since the last Take; empty if there were none.
  Term Take();

 private:
  struct Partial {
    Term sum;
    int64_t terms;  // a power of two, smaller than that of the partial before it
  };
  std::vector<Partial> partials_;
};

}  // namespace composer
