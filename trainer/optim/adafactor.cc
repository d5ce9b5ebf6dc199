// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/adafactor.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/optim/schedule/bad_value.h"

namespace composer {
namespace {

// The distance from 1 to the next number of a type, as torch.finfo has it.
double EpsOf(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kHalf:
      return static_cast<float>(std::numeric_limits<c10::Half>::epsilon());
    case at::kBFloat16:
      return static_cast<float>(std::numeric_limits<c10::BFloat16>::epsilon());
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

double RootMeanSquare(const at::Tensor& tensor) {
  return tensor.norm().item<double>() / std::sqrt(static_cast<double>(std::max<int64_t>(tensor.numel(), 1)));
}

at::Tensor MeanSquare(const at::Tensor& grad, int64_t dim) {
  return grad.norm(2, {dim}, /*keepdim=*/true).square_().div_(grad.size(dim));
}

}  // namespace

absl::Status Validate(const AdafactorOptions& options) {
  if (!(options.beta2_decay <= 0)) return BadValue("beta2_decay", options.beta2_decay, "<= 0");
  if (options.eps1 && !(*options.eps1 >= 0)) return BadValue("eps1", *options.eps1, ">= 0");
  if (!(options.eps2 >= 0)) return BadValue("eps2", options.eps2, ">= 0");
  return options.d >= 1 ? absl::OkStatus() : BadValue("d", options.d, ">= 1");
}

AdafactorOptimizer::AdafactorOptimizer(std::vector<ParamGroup> groups, const AdafactorOptions& options)
    : Optimizer(std::move(groups)), options_(options) {
  const absl::Status valid = Validate(options);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
  for (const ParamGroup& group : groups_) {
    std::vector<Kept>& kept = kept_.emplace_back();
    for (const at::Tensor& param : group.params) {
      TORCH_CHECK_VALUE(param.is_floating_point(), "adafactor: a parameter is ", param.scalar_type());
      Kept& own = kept.emplace_back();
      std::vector<int64_t> rows = param.sizes().vec(), columns = rows;
      const at::TensorOptions like = param.options().requires_grad(false);
      if (param.dim() > 1) {
        rows.back() = columns[columns.size() - 2] = 1;
        own.row_var = at::zeros(rows, like);
        own.col_var = at::zeros(columns, like);
      } else {
        own.variance = at::zeros(rows, like);
      }
    }
    steps_.push_back(at::zeros({static_cast<int64_t>(group.params.size())}, at::kDouble));
  }
}

void AdafactorOptimizer::Step() {
  const torch::NoGradGuard no_grad;
  for (size_t g = 0; g < groups_.size(); ++g) {
    auto* const steps = steps_[g].data_ptr<double>();
    for (size_t i = 0; i < groups_[g].params.size(); ++i) {
      if (groups_[g].params[i].grad().defined()) Update(groups_[g], groups_[g].params[i], kept_[g][i], steps[i] += 1);
    }
  }
}

void AdafactorOptimizer::Update(const ParamGroup& group, const at::Tensor& param, Kept& kept, double step) const {
  const at::Tensor& grad = param.grad();
  const double eps1 = options_.eps1.value_or(EpsOf(param.scalar_type())), share = std::pow(step, options_.beta2_decay);
  const double rate = std::max(options_.eps2, RootMeanSquare(param)) * std::min(group.lr, 1 / std::sqrt(step));
  if (group.weight_decay != 0) param.mul_(1 - group.lr * group.weight_decay);
  at::Tensor estimate;
  if (param.dim() > 1) {
    kept.row_var.lerp_(MeanSquare(grad, -1), share);
    kept.col_var.lerp_(MeanSquare(grad, -2), share);
    estimate = kept.row_var.matmul(kept.col_var).div_(kept.row_var.mean(-2, /*keepdim=*/true).clamp_min_(eps1));
  } else {
    kept.variance.lerp_(grad * grad, share);
    estimate = kept.variance.clone();
  }
  const at::Tensor update = estimate.clamp_min_(eps1 * eps1).rsqrt_().mul_(grad);
  param.add_(update, -rate / std::max(1.0, RootMeanSquare(update) / options_.d));
}

NamedTensors AdafactorOptimizer::state() {
  NamedTensors state;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; i < groups_[g].params.size(); ++i) {
      const Kept& kept = kept_[g][i];
      const auto add = [&](const char* kind, const at::Tensor& tensor) {
        if (tensor.defined()) state.emplace_back(absl::StrCat(groups_[g].names[i], "/", kind), tensor);
      };
      add("row_var", kept.row_var);
      add("col_var", kept.col_var);
      add("variance", kept.variance);
    }
    state.emplace_back(absl::StrCat("group", g, "/step"), steps_[g]);
  }
  return state;
}

}  // namespace composer
