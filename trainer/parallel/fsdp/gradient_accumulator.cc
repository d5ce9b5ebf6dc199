// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/gradient_accumulator.h"

#include <ATen/ATen.h>

#include <bit>
#include <utility>

namespace composer {

void GradientAccumulator::Init(at::Tensor total, bool in_tree_order) {
  total_ = std::move(total);
  in_tree_order_ = in_tree_order;
  partials_.assign(1, total_);
  terms_.clear();
}

// After k terms there is a partial sum for each bit that is set in k.
int64_t GradientAccumulator::NumPartialsFor(int64_t passes) {
  return passes < 1 ? 0 : std::bit_width(static_cast<uint64_t>(passes + 1)) - 2;
}

void GradientAccumulator::Merge() {
  const size_t last = terms_.size() - 1;
  partials_[last - 1].add_(partials_[last]);
  terms_[last - 1] += terms_[last];
  terms_.pop_back();
}

void GradientAccumulator::Add(const at::Tensor& term, bool first) {
  if (first) terms_.clear();
  const bool joins = !terms_.empty() && (!in_tree_order_ || terms_.back() == 1);
  if (!joins) {
    if (terms_.size() == partials_.size()) partials_.push_back(at::empty_like(total_));
    partials_[terms_.size()].copy_(term);
    terms_.push_back(1);
    return;
  }
  const at::Tensor& sum = partials_[terms_.size() - 1];
  sum.add_(term.device() == sum.device() ? term : term.to(sum.device()));
  ++terms_.back();
  while (in_tree_order_ && terms_.size() > 1 && terms_[terms_.size() - 2] == terms_.back()) Merge();
}

void GradientAccumulator::Finish() {
  while (terms_.size() > 1) Merge();
}

}  // namespace composer
