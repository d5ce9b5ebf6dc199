// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/unet.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "trainer/core/block.h"
#include "trainer/models/vision/conv_maker.h"

namespace composer {
namespace {

// One child, for its name.
class UNetNested final : public torch::nn::Module, public Layer {
 public:
  UNetNested(const char* name, std::shared_ptr<torch::nn::Module> inner) : inner_(*this, name, std::move(inner)) {}
  at::Tensor forward(const at::Tensor& x) override { return inner_->forward(x); }

 private:
  Slot<Layer> inner_;
};

// (conv 3x3, norm, ReLU) twice.
std::shared_ptr<LayerSequence> TwoConvs(ConvMaker& convs, int64_t in, int64_t out) {
  auto layers = convs.ConvNorm(in, out, {}, ConvMaker::Relu());
  layers->Add(convs.Conv(out, out));
  layers->Add(ConvMaker::Norm(out));
  layers->Add(ConvMaker::Relu());
  return layers;
}

// A level on the way down.
class UNetDown final : public Block {
 public:
  UNetDown(ConvMaker& convs, int64_t in, int64_t out, bool pools) {
    if (!pools) {
      inner_ = Slot<Layer>(*this, "double_conv", TwoConvs(convs, in, out));
      return;
    }
    convs.set_side(convs.side() / 2);
    const auto layers = std::make_shared<LayerSequence>();
    layers->Add(std::make_shared<MaxPool2dLayer>(torch::nn::MaxPool2dOptions(2)));
    layers->Add(std::make_shared<UNetNested>("double_conv", TwoConvs(convs, in, out)));
    inner_ = Slot<Layer>(*this, "maxpool_conv", layers);
  }

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override { return inner_->forward(inputs[0]); }

 private:
  Slot<Layer> inner_;
};

// A level on the way up; inputs[1] is the picture of the same level on the way down.
class UNetUp final : public Block {
 public:
  UNetUp(ConvMaker& convs, int64_t in, int64_t out, int64_t side) {
    const double area = static_cast<double>(convs.side()) * static_cast<double>(convs.side());
    convs.Count(4 * area * static_cast<double>(in * out));
    up_ = Slot<Layer>(*this, "up",
                      std::make_shared<TorchLayer<torch::nn::ConvTranspose2dImpl>>(
                          torch::nn::ConvTranspose2dOptions(in, out, 2).stride(2)));
    convs.set_side(side);
    conv_ = Slot<Layer>(*this, "conv", std::make_shared<UNetNested>("double_conv", TwoConvs(convs, 2 * out, out)));
  }

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor& beside = inputs[1];
    at::Tensor x = up_->forward(inputs[0]);
    const int64_t rows = beside.size(2) - x.size(2), columns = beside.size(3) - x.size(3);
    if (rows != 0 || columns != 0)
      x = at::constant_pad_nd(x, {columns / 2, columns - columns / 2, rows / 2, rows - rows / 2});
    return conv_->forward(at::cat({beside, x}, 1));
  }

 private:
  Slot<Layer> up_, conv_;
};

class UNet final : public Segmenter {
 public:
  explicit UNet(const UNetOptions& options)
      : Segmenter(options.segmentation), channels_(options.channels), levels_(options.widths.size()) {
    CheckModelSize("in_channels", channels_);
    CheckModelSize("image_size", options.image_size);
    TORCH_CHECK_VALUE(levels_ >= 2 && levels_ <= 16, "model.widths: ", levels_, " of them; there must be 2 to 16");
    for (const int64_t width : options.widths) CheckModelSize("widths", width);
    ConvMaker convs(options.image_size);
    std::vector<int64_t> sides;
    for (size_t level = 0; level < levels_; ++level) {
      down_.emplace_back(*this, level == 0 ? std::string("inc") : absl::StrCat("down", level),
                         std::make_shared<UNetDown>(convs, level == 0 ? channels_ : options.widths[level - 1],
                                                    options.widths[level], level > 0));
      sides.push_back(convs.side());
    }
    for (size_t level = levels_ - 1; level-- > 0;) {
      up_.emplace_back(*this, absl::StrCat("up", levels_ - 1 - level),
                       std::make_shared<UNetUp>(convs, options.widths[level + 1], options.widths[level], sides[level]));
    }
    const auto last = convs.Conv(options.widths[0], options.segmentation.classes, {.kernel = 1, .bias = true});
    outc_ = Slot<Layer>(*this, "outc", std::make_shared<UNetNested>("conv", last));
    flops_per_sample_ = convs.flops();
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    CheckPictures(inputs, channels_);
    const int64_t least = int64_t{1} << (levels_ - 1);
    TORCH_CHECK_VALUE(inputs.size(2) >= least && inputs.size(3) >= least, "model.widths: ", levels_,
                      " levels need pictures of at least ", least, " x ", least, " pixels, not ", inputs.size(2), " x ",
                      inputs.size(3));
    std::vector<at::Tensor> beside;
    at::Tensor x = inputs;
    for (const Slot<Layer>& down : down_) beside.push_back(x = down->forward(x));
    for (size_t i = 0; i < up_.size(); ++i) x = up_[i]->Run({x, beside[levels_ - 2 - i]});
    return outc_->forward(x);
  }

 private:
  int64_t channels_;
  size_t levels_;
  std::vector<Slot<Layer>> down_, up_;
  Slot<Layer> outc_;
};

}  // namespace

std::shared_ptr<Model> MakeUNet(const UNetOptions& options) { return std::make_shared<UNet>(options); }

}  // namespace composer
