// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/split_linear.h"

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <vector>

#include "trainer/layers/conv1d_layer.h"

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

std::optional<WholeLinear> AsWholeLinear(const torch::nn::Module& module) {
  if (const auto* linear = dynamic_cast<const torch::nn::LinearImpl*>(&module)) {
    const auto* divided = dynamic_cast<const LinearLayer*>(&module);
    const auto& options = linear->options;
    return WholeLinear{
        &module,        options.in_features(), options.out_features(),
        options.bias(), /*transposed=*/false,  divided == nullptr ? LinearLayer::Division() : divided->division};
  }
  if (const auto* linear = dynamic_cast<const Conv1dLayer*>(&module))
    return WholeLinear{&module,           linear->weight.size(0), linear->weight.size(1),
                       /*has_bias=*/true, /*transposed=*/true,    linear->division};
  return std::nullopt;
}

SplitLinear::SplitLinear(const WholeLinear& whole, Side side, int groups, Communicator& group)
    : TensorParallelLinear(whole.in, whole.out, side, groups, group, whole.has_bias, whole.transposed),
      group_(group),
      transposed_(whole.transposed) {
  const NamedParameters values = ParametersByName(*whole.layer);
  if (values[0].second.is_meta()) return;
  CopyFromWhole(*this, values);
}

at::Tensor SplitLinear::Product(const at::Tensor& x, const at::Tensor& with_bias) const {
  return at::linear(x, transposed_ ? weight.t() : weight, with_bias);
}

ColwiseLinear::ColwiseLinear(const WholeLinear& whole, bool gathers, Communicator& group)
    : SplitLinear(whole, Side::kOutput, static_cast<int>(whole.division.parts), group),
      parts_(whole.division.parts),
      gathers_(gathers) {}

at::Tensor ColwiseLinear::forward(const at::Tensor& x) {
  const at::Tensor mine = Product(SharedInput::apply(x, &group_), bias);
  return gathers_ ? GatheredOutput::apply(mine, parts_, &group_) : mine;
}

RowwiseLinear::RowwiseLinear(const WholeLinear& whole, Communicator& group)
    : SplitLinear(whole, Side::kInput, 1, group), own_(whole.in / group.world_size()) {}

at::Tensor RowwiseLinear::forward(const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.size(-1) == own_, "RowwiseParallel: a layer that takes ", own_ * group_.world_size(),
                    " features, ", own_, " of them on each of ", group_.world_size(), " ranks, was given ", x.size(-1));
  const at::Tensor sum = SummedOutput::apply(Product(x, {}), &group_);
  return bias.defined() ? sum + bias : sum;
}

}  // namespace composer
