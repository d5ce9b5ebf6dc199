// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/split_linear.h"

#include <torch/torch.h>

#include <vector>

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void KeepGroup(AutogradContext* context, Communicator* group) {
  context->saved_data["group"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(group));
}

Communicator& KeptGroup(AutogradContext* context) {
  return *reinterpret_cast<Communicator*>(static_cast<intptr_t>(context->saved_data["group"].toInt()));
}

at::Tensor SumOver(Communicator& group, const at::Tensor& part) {
  const at::Tensor sum = part.clone(at::MemoryFormat::Contiguous);
  group.AllReduceSum(sum);
  return sum;
}

// x itself; backward sums the gradient over ranks.
struct SharedInput : torch::autograd::Function<SharedInput> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Communicator* group) {
    KeepGroup(context, group);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {SumOver(KeptGroup(context), grads[0]), {}};
  }
};

// The sum over ranks; backward hands the gradient, which all ranks have, on.
struct SummedOutput : torch::autograd::Function<SummedOutput> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& part, Communicator* group) {
    return SumOver(*group, part);
  }
  static variable_list backward(AutogradContext* /*context*/, variable_list grads) { return {grads[0], {}}; }
};

// Maps [.., parts x out/t] of each rank to [.., parts x out]; backward keeps this rank's features.
struct GatheredOutput : torch::autograd::Function<GatheredOutput> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t parts, Communicator* group) {
    KeepGroup(context, group);
    context->saved_data["parts"] = parts;
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.insert(sizes.begin(), group->world_size());
    const at::Tensor gathered = at::empty(sizes, x.options());
    group->StartAllGather(gathered, x.contiguous())->Wait();
    // [t, .., parts, each] -> [.., parts, t, each]
    const at::Tensor by_part = gathered.unflatten(-1, {parts, -1}).movedim(0, -2);
    return by_part.reshape(Widened(x, group->world_size()));
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    Communicator& group = KeptGroup(context);
    const int64_t parts = context->saved_data["parts"].toInt();
    const at::Tensor mine = grads[0].unflatten(-1, {parts, group.world_size(), -1}).select(-2, group.rank());
    return {mine.flatten(-2), {}, {}};
  }
  static std::vector<int64_t> Widened(const at::Tensor& x, int64_t ranks) {
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() *= ranks;
    return sizes;
  }
};

}  // namespace

SplitLinear::SplitLinear(const torch::nn::LinearImpl& whole, int split, int groups, Communicator& group)
    : TensorParallelLinear(whole.options.in_features(), whole.options.out_features(), split, groups, group,
                           whole.options.bias()),
      group_(group) {
  if (whole.weight.is_meta()) return;
  CopyFromWhole(*this, ParametersByName(whole));
}

ColwiseLinear::ColwiseLinear(const torch::nn::LinearImpl& whole, const LinearLayer::Division& division, bool gathers,
                             Communicator& group)
    : SplitLinear(whole, 0, static_cast<int>(division.parts), group), parts_(division.parts), gathers_(gathers) {}

at::Tensor ColwiseLinear::forward(const at::Tensor& x) {
  const at::Tensor mine = at::linear(SharedInput::apply(x, &group_), weight, bias);
  return gathers_ ? GatheredOutput::apply(mine, parts_, &group_) : mine;
}

RowwiseLinear::RowwiseLinear(const torch::nn::LinearImpl& whole, Communicator& group)
    : SplitLinear(whole, 1, 1, group) {}

at::Tensor RowwiseLinear::forward(const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.size(-1) == weight.size(1), "RowwiseParallel: a layer that takes ",
                    weight.size(1) * group_.world_size(), " features, ", weight.size(1), " of them on each of ",
                    group_.world_size(), " ranks, was given ", x.size(-1));
  const at::Tensor sum = SummedOutput::apply(at::linear(x, weight), &group_);
  return bias.defined() ? sum + bias : sum;
}

}  // namespace composer
