// The mean cross-entropy that a model has just computed of its outputs, for a metric of the same outputs: over a large
// vocabulary, computing it a second time costs some percent of a step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace composer {

// Holds no memory of outputs and targets. Threads: one at a time.
class KnownLoss {
 public:
  // mean: the mean of -log softmax(logits)[target] over the targets that are not kIgnoreIndex, without gradients.
  void Set(const at::Tensor& logits, const at::Tensor& targets, at::Tensor mean);
  // Returns the mean if these are the tensors of the last Set, or their detached twins, unchanged since; else an
  // undefined tensor.
  at::Tensor Of(const at::Tensor& logits, const at::Tensor& targets) const;

 private:
  // What a tensor was, by which it is known again.
  struct Seen {
    explicit Seen(const at::Tensor& tensor);
    bool Is(const at::Tensor& tensor) const;

    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    int64_t offset, version;
    std::vector<int64_t> sizes, strides;
  };

  std::optional<Seen> logits_, targets_;
  at::Tensor mean_;
};

}  // namespace composer
