// Linear layers of which a rank holds a part, for models whose activations are otherwise the same on every rank of the
// group (layer_plan.h). Gradients of what is whole on every rank are whole, too, and equal.
//
//   x [.., in] -> ColwiseLinear -> [.., out/t] -> … -> RowwiseLinear -> [.., out], summed over the group
//
// Parameters have the names and the layout of the whole layer's. Source: Shoeybi et al. 2019, arXiv:1909.08053,
// section 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/layers/torch_layers.h"
#include "trainer/parallel/tensor/tensor_parallel.h"

namespace composer {

// A linear layer that can be split: torch's, or GPT-2's (conv1d_layer.h).
struct WholeLinear {
  const torch::nn::Module* layer;
  int64_t in, out;
  bool has_bias, transposed;
  LinearLayer::Division division;
};
// Returns nullopt for any other module.
std::optional<WholeLinear> AsWholeLinear(const torch::nn::Module& module);

// What the two have in common: the part is cut from a whole layer, with its values if it has some. The group must
// outlive the layer.
class SplitLinear : public TensorParallelLinear, public Layer {
 protected:
  SplitLinear(const WholeLinear& whole, Side side, int groups, Communicator& group);
  // Returns x times this rank's part, without the bias or with it.
  at::Tensor Product(const at::Tensor& x, const at::Tensor& with_bias) const;

  Communicator& group_;

 private:
  bool transposed_;
};

// Splits the output's features, each of `division.parts` by itself.
class ColwiseLinear final : public SplitLinear {
 public:
  // gathers: the output is whole on every rank.
  ColwiseLinear(const WholeLinear& whole, bool gathers, Communicator& group);
  // Maps [.., in] to [.., out / t], or [.., out]. Backward sums the input's gradient over the group.
  at::Tensor forward(const at::Tensor& x) override;
  int ranks() const { return group_.world_size(); }

 private:
  int64_t parts_;
  bool gathers_;
};

// Splits the input's features; the bias is whole on every rank.
class RowwiseLinear final : public SplitLinear {
 public:
  RowwiseLinear(const WholeLinear& whole, Communicator& group);
  // Maps [.., in / t] to [.., out], the sum over the group. Throws c10::ValueError when x has other features.
  at::Tensor forward(const at::Tensor& x) override;

 private:
  int64_t own_;  // in / t
};

}  // namespace composer
