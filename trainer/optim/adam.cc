// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/adam.h"

#include <torch/types.h>

namespace composer {

AdamFamily::AdamFamily(std::vector<ParamGroup> groups, const AdamOptions& options, AdamDecay decay)
    : Optimizer(std::move(groups)), options_(options) {
  const absl::Status valid = Validate(options);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
  const torch::NoGradGuard no_grad;
  for (ParamGroup& group : groups_) state_.push_back(std::make_unique<AdamGroup>(group, options, decay));
}

void AdamFamily::Update(const at::Tensor& found_inf) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) state_[i]->Step(groups_[i], found_inf);
}

NamedTensors AdamFamily::state() {
  NamedTensors result;
  for (size_t i = 0; i < groups_.size(); ++i) state_[i]->AppendState(i, groups_[i], result);
  return result;
}

}  // namespace composer
