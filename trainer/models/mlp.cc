// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/mlp.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainer/layers/layer_list.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/models/classifier.h"

namespace composer {
namespace {

class Mlp final : public Classifier {
 public:
  explicit Mlp(const std::vector<int64_t>& sizes) : features_(sizes.empty() ? 0 : sizes.front()) {
    TORCH_CHECK_VALUE(sizes.size() >= 2, "mlp: sizes needs at least [features, classes], got ", sizes.size());
    for (const int64_t size : sizes) TORCH_CHECK_VALUE(size >= 1, "mlp: sizes must be at least 1, got ", size);
    for (size_t i = 1; i < sizes.size(); ++i) {
      layers_->Add(std::make_shared<LinearLayer>(sizes[i - 1], sizes[i]));
      flops_per_sample_ += 3 * 2 * static_cast<double>(sizes[i - 1]) * static_cast<double>(sizes[i]);
    }
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    at::Tensor x = inputs.dim() == 2 ? inputs : inputs.flatten(1);
    TORCH_CHECK_VALUE(x.size(1) == features_, "model.sizes: begins with ", features_, ", but a sample has ", x.size(1),
                      " features");
    const LayerList& layers = *layers_;
    Layer& activation = *activation_;
    for (size_t i = 0; i < layers.size(); ++i) {
      x = layers[i].forward(x);
      if (i + 1 < layers.size()) x = activation.forward(x);
    }
    return x;
  }

 private:
  int64_t features_;
  std::shared_ptr<LayerList> layers_{register_module("layers", std::make_shared<LayerList>())};
  Slot<Layer> activation_{*this, "activation", std::make_shared<ReluLayer>(/*inplace=*/true)};
};

}  // namespace

std::shared_ptr<Model> MakeMlp(const std::vector<int64_t>& sizes) { return std::make_shared<Mlp>(sizes); }

}  // namespace composer
