// The part of a residual block that joins its branch to its shortcut.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "trainer/layers/layer.h"

namespace composer {

class ResidualSum : public Replaceable {
 public:
  using Part = absl::FunctionRef<at::Tensor()>;
  // Returns branch() + shortcut(). Either may be left out or computed in any order. What `branch` returns may be
  // written to, and so may what this returns.
  virtual at::Tensor forward(Part branch, Part shortcut) = 0;
  // Returns the kind of block, such as "ResNetBasicBlock".
  virtual const std::string& block() const = 0;
};

class AddResidual final : public torch::nn::Module, public ResidualSum {
 public:
  explicit AddResidual(std::string block) : block_(std::move(block)) {}
  at::Tensor forward(Part branch, Part shortcut) override {
    const at::Tensor y = branch();
    return y.add_(shortcut());
  }
  const std::string& block() const override { return block_; }

 private:
  std::string block_;
};

}  // namespace composer
