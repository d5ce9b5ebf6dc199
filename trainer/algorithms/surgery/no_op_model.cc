// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/no_op_model.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainer/core/model.h"

namespace composer {
namespace {

class OneWeight final : public Model {
 public:
  OneWeight() : weights_(register_parameter("weights", torch::full({1}, 1.5))) {}
  Outputs forward(const Batch& batch) override { return batch.targets * weights_; }
  Outputs eval_forward(const Batch& batch) override { return batch.targets; }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    return at::mse_loss(outputs, batch.targets.to(at::kFloat));
  }
  MetricList metrics(bool /*is_train*/) const override { return {}; }

 private:
  at::Tensor weights_;
};

}  // namespace

std::shared_ptr<Model> NoOpModel::ReplaceModel(std::shared_ptr<Model> /*model*/) {
  return std::make_shared<OneWeight>();
}

std::vector<std::pair<std::string, size_t>> NoOpModel::LayersOf(const Model& model) const {
  return {{"no_op_model/num_models", dynamic_cast<const OneWeight*>(&model) != nullptr ? 1 : 0}};
}

}  // namespace composer
