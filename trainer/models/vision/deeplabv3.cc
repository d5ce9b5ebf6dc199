// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/deeplabv3.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainer/models/vision/resnet_body.h"

namespace composer {
namespace {

// The mean over the picture, conv 1x1, norm and ReLU, the same for all pixels. Names 1, 2 and 3.
class AsppPooling final : public torch::nn::Module, public Layer {
 public:
  AsppPooling(ConvMaker& convs, int64_t in, int64_t out) {
    const int64_t before = convs.side();
    convs.set_side(1);
    conv_ = Slot<Layer>(*this, "1", convs.Conv(in, out, {.kernel = 1}));
    convs.set_side(before);
    norm_ = Slot<Layer>(*this, "2", ConvMaker::Norm(out));
    relu_ = Slot<Layer>(*this, "3", ConvMaker::Relu());
  }
  at::Tensor forward(const at::Tensor& x) override {
    TORCH_CHECK_VALUE(
        !is_training() || x.size(0) > 1,
        "model deeplabv3: a training microbatch needs at least 2 pictures, since a branch normalises over "
        "the means of pictures");
    const at::Tensor y = relu_->forward(norm_->forward(conv_->forward(x.mean({2, 3}, /*keepdim=*/true))));
    return y.expand({-1, -1, x.size(2), x.size(3)});
  }

 private:
  Slot<Layer> conv_, norm_, relu_;
};

// Atrous spatial pyramid pooling: branches side by side, projected to the head's width.
class Aspp final : public Block {
 public:
  Aspp(ConvMaker& convs, int64_t in, const DeepLabV3Options& options) {
    const int64_t out = options.head_width;
    const auto branches = std::make_shared<LayerList>();
    branches->Add(convs.ConvNorm(in, out, {.kernel = 1}, ConvMaker::Relu()));
    for (const int64_t rate : options.atrous_rates)
      branches->Add(convs.ConvNorm(in, out, {.dilation = rate}, ConvMaker::Relu()));
    branches->Add(std::make_shared<AsppPooling>(convs, in, out));
    branches_ = register_module("convs", branches);
    const auto joined = static_cast<int64_t>(branches->size()) * out;
    const auto project = convs.ConvNorm(joined, out, {.kernel = 1}, ConvMaker::Relu());
    project->Add(std::make_shared<DropoutLayer>(options.dropout));
    project_ = Slot<Layer>(*this, "project", project);
  }

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    std::vector<at::Tensor> parts;
    for (size_t i = 0; i < branches_->size(); ++i) parts.push_back((*branches_)[i].forward(inputs[0]));
    return project_->forward(at::cat(parts, 1));
  }

 private:
  std::shared_ptr<LayerList> branches_;
  Slot<Layer> project_;
};

class DeepLabV3 final : public Segmenter {
 public:
  explicit DeepLabV3(const DeepLabV3Options& options) : Segmenter(options.segmentation) {
    CheckModelSize("head_width", options.head_width);
    for (const int64_t rate : options.atrous_rates) CheckModelSize("atrous_rates", rate);
    ConvMaker convs(options.backbone.image_size);
    const auto backbone = register_module("backbone", std::make_shared<torch::nn::Module>());
    body_ = ResNetBody(*backbone, options.backbone, convs, /*dilated=*/2);
    const auto head = std::make_shared<LayerSequence>();
    head->Add(std::make_shared<Aspp>(convs, body_.channels(), options));
    head->Add(convs.Conv(options.head_width, options.head_width));
    head->Add(ConvMaker::Norm(options.head_width));
    head->Add(ConvMaker::Relu());
    head->Add(convs.Conv(options.head_width, options.segmentation.classes, {.kernel = 1, .bias = true}));
    head_ = Slot<Layer>(*this, "classifier", head);
    flops_per_sample_ = convs.flops();
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    const at::Tensor logits = head_->forward(body_.forward(inputs));
    return at::upsample_bilinear2d(logits, inputs.sizes().slice(2), /*align_corners=*/false);
  }

 private:
  ResNetBody body_;
  Slot<Layer> head_;
};

}  // namespace

std::shared_ptr<Model> MakeDeepLabV3(const DeepLabV3Options& options) { return std::make_shared<DeepLabV3>(options); }

}  // namespace composer
