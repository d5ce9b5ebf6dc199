// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/efficientnet.h"

#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "trainer/core/block.h"
#include "trainer/models/classifier.h"
#include "trainer/models/vision/conv_maker.h"

namespace composer {
namespace {

struct EfficientStage {
  int64_t expansion, kernel, stride, in, out, blocks;
};
constexpr EfficientStage kStages[] = {{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},  {6, 5, 2, 24, 40, 2},
                                      {6, 3, 2, 40, 80, 3},  {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4},
                                      {6, 3, 1, 192, 320, 1}};

std::shared_ptr<torch::nn::Module> Silu() { return std::make_shared<TorchLayer<torch::nn::SiLUImpl>>(); }

// The nearest multiple of 8, but no less than nine tenths.
int64_t Scaled(int64_t channels, double factor) {
  const double wanted = static_cast<double>(channels) * factor;
  const int64_t near = std::max<int64_t>(8, static_cast<int64_t>(wanted + 4) / 8 * 8);
  return static_cast<double>(near) < 0.9 * wanted ? near + 8 : near;
}

// x * sigmoid(fc2(silu(fc1(the mean of x over the picture)))).
class SqueezeExcitation final : public torch::nn::Module, public Layer {
 public:
  SqueezeExcitation(ConvMaker& convs, int64_t channels, int64_t squeezed) {
    const int64_t before = convs.side();
    convs.set_side(1);
    fc1_ = Slot<Layer>(*this, "fc1", convs.Conv(channels, squeezed, {.kernel = 1, .bias = true}));
    fc2_ = Slot<Layer>(*this, "fc2", convs.Conv(squeezed, channels, {.kernel = 1, .bias = true}));
    convs.set_side(before);
    activation_ = Slot<Layer>(*this, "activation", Silu());
    scale_activation_ = Slot<Layer>(*this, "scale_activation", std::make_shared<SigmoidLayer>());
  }
  at::Tensor forward(const at::Tensor& x) override {
    const at::Tensor mean = x.mean({2, 3}, /*keepdim=*/true);
    return scale_activation_->forward(fc2_->forward(activation_->forward(fc1_->forward(mean)))) * x;
  }

 private:
  Slot<Layer> fc1_, fc2_, activation_, scale_activation_;
};

struct MbConvShape {
  EfficientStage stage;
  double drop;  // the probability of leaving out a sample's branch
};

class MbConv final : public Block {
 public:
  MbConv(ConvMaker& convs, const MbConvShape& shape)
      : drop_(shape.drop), is_residual_(shape.stage.stride == 1 && shape.stage.in == shape.stage.out) {
    const EfficientStage& stage = shape.stage;
    const int64_t wide = stage.expansion == 1 ? stage.in : Scaled(stage.in * stage.expansion, 1);
    const auto block = std::make_shared<LayerSequence>();
    if (wide != stage.in) block->Add(convs.ConvNorm(stage.in, wide, {.kernel = 1}, Silu()));
    block->Add(convs.ConvNorm(wide, wide, {.kernel = stage.kernel, .stride = stage.stride, .groups = wide}, Silu()));
    block->Add(std::make_shared<SqueezeExcitation>(convs, wide, std::max<int64_t>(1, stage.in / 4)));
    block->Add(convs.ConvNorm(wide, stage.out, {.kernel = 1}, nullptr));
    block_ = Slot<Layer>(*this, "block", block);
  }

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor& x = inputs[0];
    at::Tensor y = block_->forward(x);
    if (!is_residual_) return y;
    if (is_training() && drop_ > 0) {
      const at::Tensor kept = at::empty({x.size(0), 1, 1, 1}, x.options()).bernoulli_(1 - drop_);
      y = y * kept.div_(1 - drop_);
    }
    return y + x;
  }

 private:
  double drop_;
  bool is_residual_;
  Slot<Layer> block_;
};

class EfficientNet final : public Classifier {
 public:
  explicit EfficientNet(const EfficientNetOptions& options) : channels_(options.channels) {
    ConvMaker convs(options.image_size);
    features_ = register_module("features", std::make_shared<LayerList>());
    const auto width = [&](int64_t channels) { return Scaled(channels, options.width_mult); };
    features_->Add(convs.ConvNorm(channels_, width(kStages[0].in), {.stride = 2}, Silu()));
    const auto depth = [&](int64_t blocks) {
      return static_cast<int64_t>(std::ceil(static_cast<double>(blocks) * options.depth_mult));
    };
    int64_t total = 0, number = 0;
    for (const EfficientStage& stage : kStages) total += depth(stage.blocks);
    for (EfficientStage stage : kStages) {
      stage.in = width(stage.in);
      stage.out = width(stage.out);
      const auto blocks = std::make_shared<LayerSequence>();
      for (int64_t i = 0; i < depth(stage.blocks); ++i) {
        const double drop = options.stochastic_depth * static_cast<double>(number++) / static_cast<double>(total);
        blocks->Add(std::make_shared<MbConv>(convs, MbConvShape{stage, drop}));
        stage.in = stage.out;
        stage.stride = 1;
      }
      features_->Add(blocks);
    }
    const int64_t last = width(kStages[6].out), wide = 4 * last;
    features_->Add(convs.ConvNorm(last, wide, {.kernel = 1}, Silu()));
    const auto head = std::make_shared<LayerSequence>();
    head->Add(std::make_shared<DropoutLayer>(options.dropout));
    const auto linear = std::make_shared<LinearLayer>(wide, options.classes);
    const double bound = 1 / std::sqrt(static_cast<double>(options.classes));
    torch::nn::init::uniform_(linear->weight, -bound, bound);
    torch::nn::init::zeros_(linear->bias);
    head->Add(linear);
    classifier_ = Slot<Layer>(*this, "classifier", head);
    convs.Count(static_cast<double>(wide * options.classes));
    flops_per_sample_ = convs.flops();
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    CheckPictures(inputs, channels_);
    at::Tensor x = inputs;
    for (size_t i = 0; i < features_->size(); ++i) x = (*features_)[i].forward(x);
    return classifier_->forward(x.mean({2, 3}));
  }

 private:
  int64_t channels_;
  std::shared_ptr<LayerList> features_;
  Slot<Layer> classifier_;
};

}  // namespace

std::shared_ptr<Model> MakeEfficientNet(const EfficientNetOptions& options) {
  for (const auto& [field, value] : {std::pair("num_classes", options.classes),
                                     {"in_channels", options.channels},
                                     {"image_size", options.image_size}})
    CheckModelSize(field, value);
  for (const auto& [field, value] : {std::pair("width_mult", options.width_mult), {"depth_mult", options.depth_mult}})
    TORCH_CHECK_VALUE(value > 0 && value <= 16, "model.", field, ": ", value, " must be above 0 and at most 16");
  for (const auto& [field, value] :
       {std::pair("dropout", options.dropout), {"stochastic_depth", options.stochastic_depth}})
    TORCH_CHECK_VALUE(value >= 0 && value < 1, "model.", field, ": ", value, " must be at least 0 and below 1");
  return std::make_shared<EfficientNet>(options);
}

}  // namespace composer
