// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/conv_maker.h"

#include <torch/enum.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

namespace composer {

std::shared_ptr<Conv2dLayer> ConvMaker::Conv(int64_t in, int64_t out, const ConvShape& shape) {
  auto conv = std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(in, out, shape.kernel)
                                                .stride(shape.stride)
                                                .padding(shape.dilation * (shape.kernel / 2))
                                                .dilation(shape.dilation)
                                                .groups(shape.groups)
                                                .bias(shape.bias));
  torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
  if (shape.bias) torch::nn::init::zeros_(conv->bias);
  side_ = (side_ + shape.stride - 1) / shape.stride;
  const double area = static_cast<double>(side_) * static_cast<double>(side_);
  Count(area * static_cast<double>(in / shape.groups) * static_cast<double>(out * shape.kernel * shape.kernel));
  return conv;
}

std::shared_ptr<LayerSequence> ConvMaker::ConvNorm(int64_t in, int64_t out, const ConvShape& shape,
                                                   std::shared_ptr<torch::nn::Module> activation) {
  auto layers = std::make_shared<LayerSequence>();
  layers->Add(Conv(in, out, shape));
  layers->Add(Norm(out));
  if (activation != nullptr) layers->Add(std::move(activation));
  return layers;
}

std::shared_ptr<BatchNorm2dLayer> ConvMaker::Norm(int64_t channels) {
  return std::make_shared<BatchNorm2dLayer>(torch::nn::BatchNormOptions(channels));
}

void CheckPictures(const at::Tensor& inputs, int64_t channels) {
  TORCH_CHECK_VALUE(inputs.dim() == 4 && inputs.size(1) == channels, "model.in_channels: the model takes pictures [B, ",
                    channels, ", H, W], but the data's inputs are ", inputs.sizes());
  TORCH_CHECK_VALUE(inputs.is_floating_point(), "model: the data's inputs are ", inputs.scalar_type(),
                    "; add the transform to_float");
}

void CheckModelSize(const char* field, int64_t value) {
  TORCH_CHECK_VALUE(value >= 1, "model.", field, ": ", value, " must be at least 1");
}

}  // namespace composer
