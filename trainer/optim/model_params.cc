// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/model_params.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "trainer/core/torch_status.h"

namespace composer {

NamedTensors NamedParametersOf(const torch::nn::Module& model) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters()) parameters.emplace_back(item.key(), item.value());
  return parameters;
}

std::vector<at::Tensor> ParametersOnce(const torch::nn::Module& model) {
  std::vector<at::Tensor> params;
  absl::flat_hash_set<const void*> seen;
  for (const at::Tensor& param : model.parameters()) {
    if (seen.insert(param.unsafeGetTensorImpl()).second) params.push_back(param);
  }
  return params;
}

std::vector<ParamGroup> ParamGroupsOf(const torch::nn::Module& model, const ParamGroupOptions& options) {
  absl::StatusOr<std::vector<ParamGroup>> groups = MakeParamGroups(NamedParametersOf(model), options);
  ThrowIfError(groups.status());
  return *std::move(groups);
}

}  // namespace composer
