// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/model_params.h"

#include <utility>

#include "trainer/core/torch_status.h"

namespace composer {

NamedTensors NamedParametersOf(const torch::nn::Module& model) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters()) parameters.emplace_back(item.key(), item.value());
  return parameters;
}

std::vector<ParamGroup> ParamGroupsOf(const torch::nn::Module& model, const ParamGroupOptions& options) {
  absl::StatusOr<std::vector<ParamGroup>> groups = MakeParamGroups(NamedParametersOf(model), options);
  ThrowIfError(groups.status());
  return *std::move(groups);
}

}  // namespace composer
