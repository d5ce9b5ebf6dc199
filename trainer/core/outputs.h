// Outputs are what a model's forward returns: one tensor, or several with names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

// Copies share the tensors. One tensor converts to Outputs and back, so that models, losses and metrics of one tensor
// need not know more: `Outputs forward(…) { return head_(x); }`, `outputs->size(0)`.
class Outputs {
 public:
  using Named = std::vector<std::pair<std::string, at::Tensor>>;

  Outputs() = default;
  Outputs(at::Tensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT: one tensor is outputs
  // The names differ. Tensors may be undefined.
  explicit Outputs(Named named) : named_(std::move(named)) {}

  bool defined() const { return tensor_.defined() || !named_.empty(); }
  bool is_named() const { return !named_.empty(); }
  const Named& named() const { return named_; }

  // Returns the tensor that losses and metrics look at: the only one, or the one named "logits", or "outputs". Throws
  // c10::ValueError that lists the names if there is none. Undefined without outputs.
  const at::Tensor& tensor() const;
  operator const at::Tensor&() const { return tensor(); }
  const at::Tensor* operator->() const { return &tensor(); }
  // Returns the tensor of this name. Throws c10::ValueError that lists the names.
  const at::Tensor& operator[](absl::string_view name) const;
  bool Has(absl::string_view name) const;

  // Joins the outputs of several batches along the first dimension. They must have the same names.
  static Outputs Cat(const std::vector<Outputs>& batches);
  Outputs Detached() const;
  Outputs To(at::Device device) const;
  void reset() { *this = Outputs(); }

 private:
  const at::Tensor* Find(absl::string_view name) const;
  [[noreturn]] void Missing(absl::string_view wanted) const;
  template <typename Fn>
  Outputs Each(const Fn& fn) const;

  at::Tensor tensor_;
  Named named_;  // empty: tensor_
};

}  // namespace composer
