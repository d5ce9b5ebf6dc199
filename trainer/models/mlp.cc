// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/mlp.h"

#include <torch/torch.h>

#include "trainer/models/classifier.h"

namespace composer {
namespace {

class Mlp final : public Classifier {
 public:
  explicit Mlp(const std::vector<int64_t>& sizes) {
    TORCH_CHECK_VALUE(sizes.size() >= 2, "mlp: sizes needs at least [features, classes], got ", sizes.size());
    for (const int64_t size : sizes) TORCH_CHECK_VALUE(size >= 1, "mlp: sizes must be at least 1, got ", size);
    torch::nn::ModuleList list;
    for (size_t i = 1; i < sizes.size(); ++i) {
      layers_.emplace_back(sizes[i - 1], sizes[i]);
      list->push_back(layers_.back());
      flops_per_sample_ += 3 * 2 * static_cast<double>(sizes[i - 1]) * static_cast<double>(sizes[i]);
    }
    register_module("layers", list);
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    at::Tensor x = inputs.dim() == 2 ? inputs : inputs.flatten(1);
    const int64_t features = layers_[0]->options.in_features();
    TORCH_CHECK_VALUE(x.size(1) == features, "model.sizes: begins with ", features, ", but a sample has ", x.size(1),
                      " features");
    for (size_t i = 0; i < layers_.size(); ++i) {
      x = layers_[i]->forward(x);
      if (i + 1 < layers_.size()) x = x.relu_();
    }
    return x;
  }

 private:
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace

std::shared_ptr<Model> MakeMlp(const std::vector<int64_t>& sizes) { return std::make_shared<Mlp>(sizes); }

}  // namespace composer
