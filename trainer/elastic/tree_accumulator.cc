// SPDX-License-Identifier: Apache-2.0
#include "trainer/elastic/tree_accumulator.h"

#include <ATen/ATen.h>

#include <utility>

namespace composer {
namespace {

// left += right. Zeros are added where a term has no tensor, so that -0 becomes 0 wherever the terms are placed.
void AddTo(TreeAccumulator::Term& left, TreeAccumulator::Term& right) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < left.size(); ++i) {
    at::Tensor &a = left[i], &b = right[i];
    if (a.defined() && b.defined()) {
      a.add_(b);
    } else if (a.defined() || b.defined()) {
      if (!a.defined()) a = std::move(b);
      a.add_(0);
    }
  }
}

}  // namespace

void TreeAccumulator::Add(Term term) {
  partials_.push_back({std::move(term), 1});
  while (partials_.size() > 1 && partials_[partials_.size() - 2].terms == partials_.back().terms) {
    Partial right = std::move(partials_.back());
    partials_.pop_back();
    AddTo(partials_.back().sum, right.sum);
    partials_.back().terms += right.terms;
  }
}

TreeAccumulator::Term TreeAccumulator::Take() {
  Term sum;
  bool first = true;
  while (!partials_.empty()) {
    Term left = std::move(partials_.back().sum);
    partials_.pop_back();
    if (!first) AddTo(left, sum);
    sum = std::move(left);
    first = false;
  }
  return sum;
}

}  // namespace composer
