// This implements tensor parallelism with sequence parallelism: the ranks of a group share each matrix product of a
// transformer, and between products each holds a run of the tokens. Shoeybi et al. 2019, arXiv:1909.08053; Korthikanti
// et al. 2022, arXiv:2205.05198.
//
//   x [B, T/t, W]: this rank's tokens; norms, dropout, residuals     (replicated parameters, each token on one rank)
//   GatherSequence -> [B, T, W] -> ColumnParallelLinear -> [B, T, out/t] -> … -> RowParallelLinear
//       -> [B, T, W], a part of a sum -> ScatterSequence
//
// Every rank of a group sees the same batch. All functions are differentiable, and after backward each parameter's
// gradient is whole on every rank that holds it: parameters that see only one rank's tokens go through Replicated.
// Optimizers, and data-parallel sums over the ranks with the same place in their group, therefore need not know about
// it. A block has these collectives: in forward and again in backward 2 all-gathers and 2 reduce-scatters of B x T x W
// elements; in backward one all-reduce of the replicated parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/tensor_split.h"
#include "trainer/core/communicator.h"

namespace composer {

// Gathers x [B, T/t, …] of each rank to [B, T, …], the ranks' tokens in order. Backward sums over ranks and keeps this
// rank's tokens.
at::Tensor GatherSequence(const at::Tensor& x, Communicator& group);
// Sums x [B, T, …], of each rank a part of a sum, to [B, T/t, …], the sum for this rank's tokens. Backward gathers. T
// must be a multiple of t.
at::Tensor ScatterSequence(const at::Tensor& x, Communicator& group);
// Returns the parameters for use on this rank's tokens. Backward sums their gradients over ranks, all in one
// collective.
std::vector<at::Tensor> Replicated(const std::vector<at::Tensor>& params, Communicator& group);

// A SplitParameter is a parameter of which this rank holds a part.
struct SplitParameter {
  std::string name;
  at::Tensor tensor;
  TensorSplit split;
};

// A TensorParallelModule is a module with split parameters.
class TensorParallelModule : public torch::nn::Module {
 public:
  // The names are the module's own.
  virtual std::vector<SplitParameter> SplitParameters() const = 0;
};

// This is a linear layer of which this rank holds a part. Parameters are called weight and bias, like
// torch::nn::Linear's; the weight is [out, in], or [in, out] if it is transposed.
class TensorParallelLinear : public TensorParallelModule {
 public:
  std::vector<SplitParameter> SplitParameters() const override;

  at::Tensor weight, bias;

 protected:
  enum class Side { kOutput, kInput };
  // Splits the features of one side; those of the output split bias, too, which stays undefined without has_bias.
  TensorParallelLinear(int64_t in, int64_t out, Side side, int groups, const Communicator& group, bool has_bias = true,
                       bool transposed = false);

 private:
  Side side_;
  TensorSplit weight_split_;
};

// Splits the output features. `groups` is the number of equal pieces of the output, each of which is split (3 for q, k
// and v).
class ColumnParallelLinear final : public TensorParallelLinear {
 public:
  ColumnParallelLinear(int64_t in, int64_t out, const Communicator& group, int groups = 1)
      : TensorParallelLinear(in, out, Side::kOutput, groups, group) {}
  // Maps [.., in] to [.., out / t].
  at::Tensor forward(const at::Tensor& x) const;
};

// Splits the input features; the bias is whole on every rank.
class RowParallelLinear final : public TensorParallelLinear {
 public:
  RowParallelLinear(int64_t in, int64_t out, const Communicator& group)
      : TensorParallelLinear(in, out, Side::kInput, 1, group) {}
  // Maps [.., in / t] to [.., out], a part of a sum over ranks, without the bias.
  at::Tensor forward(const at::Tensor& x) const;
};

// Returns the split parameters of the whole model, by parameter name. Others are the same on every rank.
std::vector<SplitParameter> SplitParametersOf(const torch::nn::Module& model);

using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;
NamedParameters ParametersByName(const torch::nn::Module& model);

// PartOfWhole pairs a parameter of this rank's model with the whole model's.
struct PartOfWhole {
  at::Tensor part, whole;
  std::optional<TensorSplit> split;  // nullopt: they are the same
};
// Pairs all parameters with those of `whole`, by name. Throws c10::ValueError for one that is missing or has another
// shape.
std::vector<PartOfWhole> PartsOfWhole(const torch::nn::Module& model, const NamedParameters& whole);
// Returns this rank's part, in memory of its own.
at::Tensor CutFrom(const at::Tensor& whole, const TensorSplit& split);
// Copies this rank's parts, and what is not split, from whole tensors. Throws as PartsOfWhole does.
void CopyFromWhole(torch::nn::Module& model, const NamedParameters& whole);

}  // namespace composer
