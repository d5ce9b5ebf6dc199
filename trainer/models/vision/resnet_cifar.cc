// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/resnet_cifar.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/pooling.h>
#include <torch/types.h>

#include "trainer/models/classifier.h"
#include "trainer/models/vision/resnet_body.h"

namespace composer {
namespace {

class CifarClassifier : public Classifier {
 protected:
  explicit CifarClassifier(int64_t channels) : channels_(channels) {}
  void AddHead(ConvMaker& convs, int64_t in, int64_t classes) {
    fc_ = Slot<Layer>(*this, "fc", std::make_shared<LinearLayer>(in, classes));
    convs.Count(static_cast<double>(in * classes));
    flops_per_sample_ = convs.flops();
  }
  at::Tensor Logits(const at::Tensor& inputs) final {
    CheckPictures(inputs, channels_);
    TORCH_CHECK_VALUE(inputs.size(2) >= 8 && inputs.size(3) >= 8,
                      "model: pictures must have at least 8 x 8 pixels, not ", inputs.size(2), " x ", inputs.size(3));
    return fc_->forward(Body(inputs).mean({2, 3}));
  }
  virtual at::Tensor Body(const at::Tensor& inputs) = 0;

 private:
  int64_t channels_;
  Slot<Layer> fc_;
};

class ResNet9 final : public CifarClassifier {
 public:
  explicit ResNet9(const ResNetCifarOptions& options) : CifarClassifier(options.channels) {
    const int64_t width = options.width;
    ConvMaker convs(options.image_size);
    const auto layers = std::make_shared<LayerSequence>();
    const auto add = [&](int64_t in, int64_t out) {
      layers->Add(convs.Conv(in, out));
      layers->Add(std::make_shared<BatchNorm2dLayer>(torch::nn::BatchNormOptions(out).momentum(0.9)));
      layers->Add(ConvMaker::Relu());
    };
    const auto halve = [&] {
      layers->Add(std::make_shared<MaxPool2dLayer>(torch::nn::MaxPool2dOptions(2).stride(2)));
      convs.set_side(convs.side() / 2);
    };
    const auto block = [&](int64_t channels) {
      layers->Add(std::make_shared<ResNetBlock>(convs, ResNetBlockShape{.in = channels, .out = channels}));
    };
    add(options.channels, width);
    add(width, 2 * width);
    halve();
    block(2 * width);
    add(2 * width, 4 * width);
    halve();
    add(4 * width, 4 * width);
    halve();
    block(4 * width);
    body_ = Slot<Layer>(*this, "body", layers);
    AddHead(convs, 4 * width, options.classes);
  }

 protected:
  at::Tensor Body(const at::Tensor& inputs) override { return body_->forward(inputs); }

 private:
  Slot<Layer> body_;
};

class ThreeStages final : public CifarClassifier {
 public:
  explicit ThreeStages(const ResNetCifarOptions& options) : CifarClassifier(options.channels) {
    ConvMaker convs(options.image_size);
    conv_ = Slot<Layer>(*this, "conv", convs.Conv(options.channels, options.width));
    bn_ = Slot<Layer>(*this, "bn", ConvMaker::Norm(options.width));
    relu_ = Slot<Layer>(*this, "relu", ConvMaker::Relu());
    const auto blocks = std::make_shared<LayerSequence>();
    int64_t in = options.width;
    for (int64_t stage = 0; stage < 3; ++stage) {
      for (int64_t i = 0; i < (options.depth - 2) / 6; ++i) {
        const int64_t out = options.width << stage;
        blocks->Add(std::make_shared<ResNetBlock>(
            convs,
            ResNetBlockShape{.in = in, .out = out, .stride = stage > 0 && i == 0 ? 2 : 1, .shortcut = "shortcut"}));
        in = out;
      }
    }
    blocks_ = Slot<Layer>(*this, "blocks", blocks);
    AddHead(convs, in, options.classes);
  }

 protected:
  at::Tensor Body(const at::Tensor& inputs) override {
    return blocks_->forward(relu_->forward(bn_->forward(conv_->forward(inputs))));
  }

 private:
  Slot<Layer> conv_, bn_, relu_, blocks_;
};

}  // namespace

std::shared_ptr<Model> MakeResNetCifar(const ResNetCifarOptions& options) {
  for (const auto& [field, value] : {std::pair("num_classes", options.classes),
                                     {"in_channels", options.channels},
                                     {"image_size", options.image_size},
                                     {"width", options.width + 1}})
    CheckModelSize(field, value);
  ResNetCifarOptions made = options;
  if (made.width == 0) made.width = made.depth == 9 ? 64 : 16;
  if (made.depth == 9) return std::make_shared<ResNet9>(made);
  TORCH_CHECK_VALUE(made.depth == 20 || made.depth == 56, "model.depth: ", made.depth, "; there are 9, 20 and 56");
  return std::make_shared<ThreeStages>(made);
}

}  // namespace composer
