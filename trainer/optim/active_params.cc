// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/active_params.h"

#include <torch/types.h>

namespace composer {

at::Tensor LaidOutLike(const at::Tensor& param, const at::Tensor& grad) {
  if (grad.scalar_type() == param.scalar_type() && grad.strides() == param.strides()) return grad;
  return at::empty_like(param).copy_(grad);
}

ActiveParams::ActiveParams(const ParamGroup& group) : all_(group.params), mask_(group.params.size(), 0) {
  for (size_t i = 0; i < all_.size(); ++i) {
    const at::Tensor& param = all_[i];
    const auto name = i < group.names.size() ? group.names[i] : std::to_string(i);
    TORCH_CHECK(param.is_floating_point(), "parameter ", name, " is ", param.scalar_type(), ", not floating point");
    TORCH_CHECK(param.scalar_type() == all_[0].scalar_type() && param.device() == all_[0].device(), "parameter ", name,
                " is ", param.scalar_type(), " on ", param.device(), ", others of its group are ",
                all_[0].scalar_type(), " on ", all_[0].device(), ": put them into groups of their own");
    TORCH_CHECK(param.is_non_overlapping_and_dense(), "parameter ", name, " is a view with gaps or overlaps");
  }
  grads_.reserve(all_.size());
}

bool ActiveParams::Refresh() {
  bool changed = false;
  grads_.clear();
  for (size_t i = 0; i < all_.size(); ++i) {
    const at::Tensor& grad = all_[i].grad();
    const char has_grad = grad.defined();
    changed |= has_grad != mask_[i];
    mask_[i] = has_grad;
    if (has_grad) grads_.push_back(LaidOutLike(all_[i], grad));
  }
  if (changed) params_ = Select(all_);
  return changed;
}

std::vector<at::Tensor> ActiveParams::Select(const std::vector<at::Tensor>& all) const {
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < all.size(); ++i) {
    if (mask_[i]) result.push_back(all[i]);
  }
  return result;
}

void ActiveParams::Scale(double factor, const at::Tensor& found_inf) const {
  if (factor == 1) return;
  if (!found_inf.defined()) {
    at::_foreach_mul_(params_, factor);
    return;
  }
  at::_foreach_mul_(params_, at::where(found_inf > 0, 1.0, factor).to(params_[0].scalar_type()).squeeze());
}

StateTensors::StateTensors(const ParamGroup& group, std::optional<at::ScalarType> dtype) {
  for (const at::Tensor& param : group.params)
    all.push_back(at::zeros_like(param, param.options().dtype(dtype.value_or(param.scalar_type()))));
}

void StateTensors::AppendOne(const ParamGroup& group, size_t parameter, const char* kind, NamedTensors& state) const {
  if (!all.empty()) state.emplace_back(group.names[parameter] + "/" + kind, all[parameter]);
}

}  // namespace composer
