// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/tensor_parallel.h"

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void Keep(AutogradContext* context, Communicator& group) {
  context->saved_data["group"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(&group));
}

Communicator& GroupOf(AutogradContext* context) {
  return *reinterpret_cast<Communicator*>(static_cast<intptr_t>(context->saved_data["group"].toInt()));
}

// Maps [B, T/t, …] to [B, T, …].
at::Tensor AllGatherTokens(const at::Tensor& x, Communicator& group) {
  const int64_t ranks = group.world_size();
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.insert(sizes.begin(), ranks);
  const at::Tensor gathered = at::empty(sizes, x.options());
  group.StartAllGather(gathered, x.contiguous())->Wait();
  std::vector<int64_t> whole = x.sizes().vec();
  whole[1] *= ranks;
  return gathered.transpose(0, 1).reshape(whole);
}

// Maps [B, T, …] to [B, T/t, …] of the sum.
at::Tensor ReduceScatterTokens(const at::Tensor& x, Communicator& group) {
  const int64_t ranks = group.world_size();
  TORCH_CHECK_VALUE(x.dim() >= 2 && x.size(1) % ranks == 0, "tensor parallelism: the length of sequences, ",
                    x.dim() >= 2 ? x.size(1) : 0, ", must be a multiple of tensor_parallel_degree ", ranks);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[1] /= ranks;
  const at::Tensor mine = at::empty(sizes, x.options());
  sizes.insert(sizes.begin() + 1, ranks);
  const at::Tensor by_rank = x.reshape(sizes).transpose(0, 1).contiguous();
  group.StartReduceScatterSum(mine, by_rank)->Wait();
  return mine;
}

struct GatherFunction : torch::autograd::Function<GatherFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Communicator* group) {
    Keep(context, *group);
    return AllGatherTokens(x, *group);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {ReduceScatterTokens(grads[0], GroupOf(context)), {}};
  }
};

struct ScatterFunction : torch::autograd::Function<ScatterFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Communicator* group) {
    Keep(context, *group);
    return ReduceScatterTokens(x, *group);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {AllGatherTokens(grads[0], GroupOf(context)), {}};
  }
};

struct ReplicatedFunction : torch::autograd::Function<ReplicatedFunction> {
  static variable_list forward(AutogradContext* context, at::TensorList params, Communicator* group) {
    Keep(context, *group);
    variable_list aliases;
    for (const at::Tensor& param : params) aliases.push_back(param.view_as(param));
    return aliases;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& grad : grads) flat.push_back(grad.reshape(-1));
    const at::Tensor sum = at::cat(flat);
    GroupOf(context).AllReduceSum(sum);
    int64_t offset = 0;
    for (at::Tensor& grad : grads) {
      grad = sum.narrow(0, offset, grad.numel()).view(grad.sizes());
      offset += grad.numel();
    }
    grads.emplace_back();  // for the group argument
    return grads;
  }
};

}  // namespace

at::Tensor GatherSequence(const at::Tensor& x, Communicator& group) { return GatherFunction::apply(x, &group); }

at::Tensor ScatterSequence(const at::Tensor& x, Communicator& group) { return ScatterFunction::apply(x, &group); }

std::vector<at::Tensor> Replicated(const std::vector<at::Tensor>& params, Communicator& group) {
  return ReplicatedFunction::apply(at::TensorList(params), &group);
}

TensorParallelLinear::TensorParallelLinear(int64_t in, int64_t out, Side side, int groups, const Communicator& group,
                                           bool has_bias, bool transposed)
    : side_(side), weight_split_{{out, in}, 0, groups, group.world_size(), group.rank()} {
  if (transposed) std::swap(weight_split_.shape[0], weight_split_.shape[1]);
  weight_split_.dim = (side == Side::kInput) == transposed ? 0 : 1;
  const int64_t ranks = group.world_size(), whole = side == Side::kOutput ? out : in;
  TORCH_CHECK_VALUE(whole % (ranks * groups) == 0, "tensor parallelism: ", whole / groups,
                    " features do not split over tensor_parallel_degree ", ranks);
  weight = register_parameter("weight", torch::zeros(weight_split_.LocalShape()));
  if (has_bias) bias = register_parameter("bias", torch::zeros({side == Side::kOutput ? out / ranks : out}));
}

std::vector<SplitParameter> TensorParallelLinear::SplitParameters() const {
  std::vector<SplitParameter> split = {{"weight", weight, weight_split_}};
  if (side_ == Side::kOutput && bias.defined()) {
    split.push_back({"bias", bias, weight_split_});
    split.back().split.shape = {weight_split_.shape[static_cast<size_t>(weight_split_.dim)]};
    split.back().split.dim = 0;
  }
  return split;
}

at::Tensor ColumnParallelLinear::forward(const at::Tensor& x) const { return at::linear(x, weight, bias); }

at::Tensor RowParallelLinear::forward(const at::Tensor& x) const { return at::linear(x, weight); }

std::vector<SplitParameter> SplitParametersOf(const torch::nn::Module& model) {
  std::vector<SplitParameter> all;
  const auto add = [&all](const torch::nn::Module& module, const std::string& prefix) {
    const auto* parallel = dynamic_cast<const TensorParallelModule*>(&module);
    if (parallel == nullptr) return;
    for (SplitParameter& each : parallel->SplitParameters()) {
      each.name = prefix + each.name;
      all.push_back(std::move(each));
    }
  };
  add(model, "");  // separate, since a module under construction has no shared pointer to itself
  for (const auto& item : model.named_modules(std::string(), /*include_self=*/false))
    add(*item.value(), item.key() + ".");
  return all;
}

NamedParameters ParametersByName(const torch::nn::Module& model) {
  NamedParameters named;
  for (const auto& item : model.named_parameters()) named.emplace_back(item.key(), item.value());
  return named;
}

std::vector<PartOfWhole> PartsOfWhole(const torch::nn::Module& model, const NamedParameters& whole) {
  const absl::flat_hash_map<std::string, at::Tensor> by_name(whole.begin(), whole.end());
  absl::flat_hash_map<std::string, TensorSplit> splits;
  for (const SplitParameter& each : SplitParametersOf(model)) splits.emplace(each.name, each.split);
  std::vector<PartOfWhole> parts;
  for (const auto& [name, part] : ParametersByName(model)) {
    const auto found = by_name.find(name);
    TORCH_CHECK_VALUE(found != by_name.end(), "no tensor ", name);
    const auto split = splits.find(name);
    const bool is_split = split != splits.end();
    const at::IntArrayRef shape = is_split ? at::IntArrayRef(split->second.shape) : part.sizes();
    TORCH_CHECK_VALUE(found->second.sizes() == shape, name, " has shape ", found->second.sizes(), ", not ", shape);
    parts.push_back({part, found->second, is_split ? std::optional(split->second) : std::nullopt});
  }
  return parts;
}

at::Tensor CutFrom(const at::Tensor& whole, const TensorSplit& split) {
  std::vector<at::Tensor> pieces;
  for (const TensorSplit::Part& part : split.Parts()) pieces.push_back(whole.narrow(split.dim, part.whole, part.size));
  return at::cat(pieces, split.dim);
}

void CopyFromWhole(torch::nn::Module& model, const NamedParameters& whole) {
  const at::NoGradGuard no_grad;
  for (const PartOfWhole& each : PartsOfWhole(model, whole))
    each.part.copy_(each.split ? CutFrom(each.whole, *each.split) : each.whole);
}

}  // namespace composer
