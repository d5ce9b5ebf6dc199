// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/resnet_small.h"

#include <torch/enum.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "trainer/core/block.h"
#include "trainer/layers/layer_list.h"
#include "trainer/layers/norm_activation.h"
#include "trainer/layers/residual_sum.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/models/classifier.h"

namespace composer {
namespace {

std::shared_ptr<Conv2dLayer> Conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  auto conv = std::make_shared<Conv2dLayer>(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
  return conv;
}

std::shared_ptr<BatchNorm2dLayer> Norm(int64_t channels) {
  return std::make_shared<BatchNorm2dLayer>(torch::nn::BatchNormOptions(channels));
}

std::shared_ptr<ReluLayer> Relu() { return std::make_shared<ReluLayer>(/*inplace=*/true); }

// Computes relu(x' + bn(conv(relu(bn(conv(x)))))), with x' = x or, where the shape changes, bn(conv 1x1(x)).
class BasicBlock final : public Block {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride)
      : conv1_(*this, "conv1", Conv(in, out, 3, stride)),
        bn1_(*this, "bn1", Norm(out)),
        conv2_(*this, "conv2", Conv(out, out, 3, 1)),
        bn2_(*this, "bn2", Norm(out)),
        relu_(*this, "relu", Relu()),
        sum_(*this, "sum", std::make_shared<AddResidual>("ResNetBasicBlock")) {
    if (stride == 1 && in == out) return;
    auto downsample = std::make_shared<LayerSequence>();
    downsample->Add(Conv(in, out, 1, stride));
    downsample->Add(Norm(out));
    downsample_ = Slot<Layer>(*this, "downsample", std::move(downsample));
  }

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor& x = inputs[0];
    return NormSumActivation(
        *bn2_, *sum_, *relu_, [&] { return conv2_->forward(NormActivation(*bn1_, *relu_, conv1_->forward(x))); },
        [&] { return downsample_ ? downsample_->forward(x) : x; });
  }

 private:
  Slot<Layer> conv1_, bn1_, conv2_, bn2_, relu_, downsample_;
  Slot<ResidualSum> sum_;
};

class ResNetSmall final : public Classifier {
 public:
  explicit ResNetSmall(const ResNetSmallOptions& options)
      : conv1_(*this, "conv1", Conv(options.channels, options.widths.front(), 3, options.stem_stride)),
        bn1_(*this, "bn1", Norm(options.widths.front())),
        relu_(*this, "relu", Relu()) {
    int64_t in = options.widths.front();
    for (size_t stage = 0; stage < options.widths.size(); ++stage) {
      auto blocks = std::make_shared<LayerList>();
      for (int64_t i = 0; i < options.blocks; ++i) {
        const int64_t out = options.widths[stage];
        blocks->Add(std::make_shared<BasicBlock>(in, out, stage > 0 && i == 0 ? 2 : 1));
        in = out;
      }
      stages_.push_back(register_module(absl::StrCat("layer", stage + 1), blocks));
    }
    fc_ = Slot<Layer>(*this, "fc", std::make_shared<LinearLayer>(in, options.classes));
    flops_per_sample_ = 3 * ForwardFlops(options);
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    at::Tensor x = NormActivation(*bn1_, *relu_, conv1_->forward(inputs));
    for (const auto& blocks : stages_) {
      for (size_t i = 0; i < blocks->size(); ++i) x = (*blocks)[i].forward(x);
    }
    return fc_->forward(x.mean({2, 3}));
  }

 private:
  // Counts the multiplications and additions of the convolutions and the last layer.
  static double ForwardFlops(const ResNetSmallOptions& options) {
    double side = static_cast<double>((options.image_size + options.stem_stride - 1) / options.stem_stride);
    auto in = static_cast<double>(options.widths.front());
    double multiplications = side * side * 9 * static_cast<double>(options.channels) * in;
    for (size_t stage = 0; stage < options.widths.size(); ++stage) {
      const auto out = static_cast<double>(options.widths[stage]);
      if (stage > 0) side = std::ceil(side / 2);
      const double area = side * side;
      if (stage > 0) multiplications += area * in * out;  // the shortcut
      multiplications += area * 9 * out * (in + out + 2 * out * static_cast<double>(options.blocks - 1));
      in = out;
    }
    return 2 * (multiplications + in * static_cast<double>(options.classes));
  }

  Slot<Layer> conv1_, bn1_, relu_, fc_;
  std::vector<std::shared_ptr<LayerList>> stages_;
};

void CheckCount(const char* field, int64_t value) {
  TORCH_CHECK_VALUE(value >= 1, "resnet_small: ", field, " must be at least 1, got ", value);
}

}  // namespace

std::shared_ptr<Model> MakeResNetSmall(const ResNetSmallOptions& options) {
  CheckCount("channels", options.channels);
  CheckCount("classes", options.classes);
  CheckCount("blocks", options.blocks);
  CheckCount("stem_stride", options.stem_stride);
  TORCH_CHECK_VALUE(!options.widths.empty(), "resnet_small: widths must name at least one stage");
  for (const int64_t width : options.widths) CheckCount("widths", width);
  return std::make_shared<ResNetSmall>(options);
}

}  // namespace composer
