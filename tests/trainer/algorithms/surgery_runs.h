// Models and runs for the tests of surgery.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/trainer/loop/small_run.h"
#include "trainer/algorithms/surgery/blur_pool.h"
#include "trainer/algorithms/surgery/low_precision_layer_norm.h"
#include "trainer/algorithms/surgery/squeeze_excite.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/models/classifier.h"
#include "trainer/models/resnet_small.h"

namespace composer {

// The net of tools/golden_surgery.py.
class SurgeryNet final : public Classifier {
 public:
  SurgeryNet()
      : stem_(*this, "stem", Conv(torch::nn::Conv2dOptions(2, 16, 3).padding(1))),
        pool_(*this, "pool", std::make_shared<MaxPool2dLayer>(2)),
        strided_(*this, "strided", Conv(torch::nn::Conv2dOptions(16, 20, 3).stride({2, 1}).padding(1).groups(2))),
        thin_(*this, "thin", Conv(torch::nn::Conv2dOptions(20, 4, 1).stride(2).bias(false))) {}

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    return thin_->forward(strided_->forward(pool_->forward(stem_->forward(inputs))).relu()).mean({2, 3});
  }

 private:
  static std::shared_ptr<Conv2dLayer> Conv(const torch::nn::Conv2dOptions& options) {
    return std::make_shared<Conv2dLayer>(options);
  }
  Slot<Layer> stem_, pool_, strided_, thin_;
};

// The one with a batch norm.
class NormedNet final : public Classifier {
 public:
  NormedNet()
      : stem_(*this, "stem", std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(2, 16, 3).padding(1))),
        norm_(*this, "norm", std::make_shared<BatchNorm2dLayer>(torch::nn::BatchNormOptions(16))),
        middle_(*this, "middle", std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(16, 16, 3).padding(1))),
        last_(*this, "last", std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(16, 4, 1))) {}

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    return last_->forward(middle_->forward(norm_->forward(stem_->forward(inputs)).relu()).relu()).mean({2, 3});
  }

 private:
  Slot<Layer> stem_, norm_, middle_, last_;
};

inline at::Tensor DrawTensor(uint32_t start, at::IntArrayRef shape) {
  Draws draws(start);
  at::Tensor values = torch::empty(shape);
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<float>()[i] = draws.Next();
  return values;
}

// An algorithm that changes the model by a function.
class ChangeBy final : public Algorithm {
 public:
  using Fn = std::function<void(Model&)>;
  explicit ChangeBy(Fn fn, std::string name = "ChangeBy", bool required = false)
      : fn_(std::move(fn)), name_(std::move(name)), required_(required) {}
  std::string name() const override { return name_; }
  EventSet events() const override { return {}; }
  bool Match(Event event, const State& state) const override { return false; }
  absl::Status Apply(Event event, State& state, Logger& logger) override { return absl::OkStatus(); }
  absl::Status ChangeModel(Model& model, const ModelContext& context) override {
    fn_(model);
    return absl::OkStatus();
  }
  bool required_on_load() const override { return required_; }

 private:
  Fn fn_;
  std::string name_;
  bool required_;
};

// Runs a small residual network (blocks, so FSDP has units) on images of draws, 10 batches of 8.
inline TrainerOptions ImageRun(const std::string& folder, int64_t batches) {
  TrainerOptions options = SmallRun();
  const at::Tensor images = DrawTensor(3, {40, 1, 8, 8});
  options.train.dataset = MakeTensorRows(images, images.view({40, 4, 16}).mean(2).argmax(1));
  options.model = nullptr;
  options.make_model = [] {
    return MakeResNetSmall({.classes = 4, .widths = {16, 16}, .stem_stride = 1, .image_size = 8});
  };
  options.max_duration = Time::Batches(batches);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(5);
  return options;
}

inline std::unique_ptr<Algorithm> SmallBlur() { return std::make_unique<BlurPool>(BlurPoolOptions{}); }
inline std::unique_ptr<Algorithm> SmallExcite() {
  return std::make_unique<SqueezeExcite>(SqueezeExciteOptions{.latent_channels = 4, .min_channels = 16});
}

}  // namespace composer
