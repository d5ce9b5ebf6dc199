// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor_parallel.h"

#include <torch/torch.h>

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

// [B, T/t, …] -> [B, T, …].
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

// [B, T, …] -> the sum's [B, T/t, …].
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

struct GatherOutputsFunction : torch::autograd::Function<GatherOutputsFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Communicator* group) {
    Keep(context, *group);
    return AllGatherTokens(x, *group);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Communicator& group = GroupOf(context);
    return {grads[0].chunk(group.world_size(), 1)[static_cast<size_t>(group.rank())], {}};
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
    grads.emplace_back();  // the group
    return grads;
  }
};

}  // namespace

at::Tensor GatherSequence(const at::Tensor& x, Communicator& group) { return GatherFunction::apply(x, &group); }

at::Tensor ScatterSequence(const at::Tensor& x, Communicator& group) { return ScatterFunction::apply(x, &group); }

at::Tensor GatherOutputs(const at::Tensor& x, Communicator& group) { return GatherOutputsFunction::apply(x, &group); }

std::vector<at::Tensor> Replicated(const std::vector<at::Tensor>& params, Communicator& group) {
  return ReplicatedFunction::apply(at::TensorList(params), &group);
}

TensorParallelLinear::TensorParallelLinear(int64_t in, int64_t out, int split, int groups, const Communicator& group)
    : weight_split_{{out, in}, split, groups, group.world_size(), group.rank()} {
  const int64_t ranks = group.world_size(), whole = split == 0 ? out : in;
  TORCH_CHECK_VALUE(whole % (ranks * groups) == 0, "tensor parallelism: ", whole / groups,
                    " features do not split over tensor_parallel_degree ", ranks);
  weight = register_parameter("weight", torch::zeros(weight_split_.LocalShape()));
  bias = register_parameter("bias", torch::zeros({split == 0 ? out / ranks : out}));
}

std::vector<SplitParameter> TensorParallelLinear::SplitParameters() const {
  std::vector<SplitParameter> split = {{"weight", weight, weight_split_}};
  if (weight_split_.dim == 0) {
    split.push_back({"bias", bias, weight_split_});
    split.back().split.shape = {weight_split_.shape[0]};
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
  add(model, "");  // apart: a module that is being constructed has no shared pointer to itself
  for (const auto& item : model.named_modules(std::string(), /*include_self=*/false))
    add(*item.value(), item.key() + ".");
  return all;
}

std::vector<ShardedTensor> TensorShards(const torch::nn::Module& model) {
  std::vector<ShardedTensor> all;
  for (const auto& [name, tensor, split] : SplitParametersOf(model)) {
    all.push_back({name, split.shape, tensor.scalar_type(), {}, true});
    const BoxExtent local{std::vector<int64_t>(split.shape.size()), split.LocalShape()};
    for (const TensorSplit::Box& box : split.ToWhole(local)) {
      const int64_t begin = box.local.offset[static_cast<size_t>(split.dim)];
      const int64_t size = box.local.shape[static_cast<size_t>(split.dim)];
      all.back().shards.push_back({box.offset, tensor.detach().narrow(split.dim, begin, size)});
    }
  }
  return all;
}

void CopyFromWhole(torch::nn::Module& model, const std::vector<std::pair<std::string, at::Tensor>>& whole) {
  const at::NoGradGuard no_grad;
  absl::flat_hash_map<std::string, at::Tensor> by_name(whole.begin(), whole.end());
  const auto find = [&](const std::string& name, at::IntArrayRef shape) {
    const auto found = by_name.find(name);
    TORCH_CHECK_VALUE(found != by_name.end(), "no tensor ", name);
    TORCH_CHECK_VALUE(found->second.sizes() == shape, name, " has shape ", found->second.sizes(), ", not ", shape);
    return found->second;
  };
  absl::flat_hash_map<std::string, bool> is_split;
  for (const ShardedTensor& sharded : TensorShards(model)) {
    const at::Tensor source = find(sharded.name, sharded.shape);
    is_split[sharded.name] = true;
    for (const Shard& shard : sharded.shards) {
      at::Tensor box = source;
      for (size_t dim = 0; dim < shard.offset.size(); ++dim)
        box = box.narrow(static_cast<int64_t>(dim), shard.offset[dim], shard.data.size(static_cast<int64_t>(dim)));
      shard.data.copy_(box);
    }
  }
  for (auto& item : model.named_parameters()) {
    if (!is_split.contains(item.key())) item.value().copy_(find(item.key(), item.value().sizes()));
  }
}

}  // namespace composer
