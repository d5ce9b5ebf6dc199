// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/resnet_body.h"

#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/pooling.h>
#include <torch/types.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "trainer/layers/norm_activation.h"

namespace composer {
namespace {

struct ResNetDepth {
  int64_t depth;
  bool bottleneck;
  std::array<int64_t, 4> blocks;
};
constexpr ResNetDepth kDepths[] = {{18, false, {2, 2, 2, 2}},
                                   {34, false, {3, 4, 6, 3}},
                                   {50, true, {3, 4, 6, 3}},
                                   {101, true, {3, 4, 23, 3}},
                                   {152, true, {3, 8, 36, 3}}};

ResNetDepth DepthOf(const ResNetOptions& options) {
  for (const auto& [field, value] : {std::pair("num_classes", options.classes),
                                     {"in_channels", options.channels},
                                     {"width", options.width},
                                     {"groups", options.groups},
                                     {"width_per_group", options.width_per_group},
                                     {"image_size", options.image_size}})
    CheckModelSize(field, value);
  for (const ResNetDepth& row : kDepths) {
    if (row.depth != options.depth) continue;
    TORCH_CHECK_VALUE(row.bottleneck || (options.groups == 1 && options.width_per_group == 64),
                      "model.depth: ", row.depth,
                      " has basic blocks, for which groups must be 1 and width_per_group 64");
    const int64_t inner = options.width * options.width_per_group / 64 * options.groups;
    TORCH_CHECK_VALUE(inner >= 1 && options.width % options.groups == 0, "model.width: ", options.width,
                      " is too small for width_per_group ", options.width_per_group, " and groups ", options.groups,
                      ", or not a multiple of groups");
    return row;
  }
  TORCH_CHECK_VALUE(false, "model.depth: ", options.depth, "; there are 18, 34, 50, 101 and 152");
}

}  // namespace

ResNetBlock::ResNetBlock(ConvMaker& convs, const ResNetBlockShape& shape) {
  const int64_t before = convs.side();
  const ConvShape first{.stride = shape.stride, .dilation = shape.dilation, .groups = shape.groups};
  if (shape.width > 0) {
    Add(convs, shape.in, shape.width, {.kernel = 1});
    Add(convs, shape.width, shape.width, first);
    Add(convs, shape.width, shape.out, {.kernel = 1}, shape.zero_last_norm);
  } else {
    Add(convs, shape.in, shape.out, first);
    Add(convs, shape.out, shape.out, {}, shape.zero_last_norm);
  }
  relu_ = Slot<Layer>(*this, "relu", ConvMaker::Relu());
  sum_ = Slot<ResidualSum>(*this, "sum",
                           std::make_shared<AddResidual>(shape.width > 0 ? "ResNetBottleneck" : "ResNetBasicBlock"));
  if (shape.stride == 1 && shape.in == shape.out) return;
  convs.set_side(before);
  shortcut_ = Slot<Layer>(*this, shape.shortcut,
                          convs.ConvNorm(shape.in, shape.out, {.kernel = 1, .stride = shape.stride}, nullptr));
}

void ResNetBlock::Add(ConvMaker& convs, int64_t in, int64_t out, const ConvShape& shape, bool zero_norm) {
  const size_t number = convs_.size() + 1;
  convs_.emplace_back(*this, absl::StrCat("conv", number), convs.Conv(in, out, shape));
  const auto norm = ConvMaker::Norm(out);
  if (zero_norm) torch::nn::init::zeros_(norm->weight);
  norms_.emplace_back(*this, absl::StrCat("bn", number), norm);
}

at::Tensor ResNetBlock::Compute(const std::vector<at::Tensor>& inputs) {
  const at::Tensor& x = inputs[0];
  const auto before_last_norm = [&] {
    at::Tensor y = convs_[0]->forward(x);
    for (size_t i = 1; i < convs_.size(); ++i) y = convs_[i]->forward(NormActivation(*norms_[i - 1], *relu_, y));
    return y;
  };
  return NormSumActivation(*norms_.back(), *sum_, *relu_, before_last_norm,
                           [&] { return shortcut_ ? shortcut_->forward(x) : x; });
}

ResNetBody::ResNetBody(torch::nn::Module& parent, const ResNetOptions& options, ConvMaker& convs, int64_t dilated)
    : in_channels_(options.channels), channels_(options.width) {
  const ResNetDepth depth = DepthOf(options);
  TORCH_CHECK_VALUE(dilated == 0 || depth.bottleneck, "model.depth: ", depth.depth,
                    " has basic blocks, which are not dilated; there are 50, 101 and 152");
  conv1_ = Slot<Layer>(parent, "conv1", convs.Conv(options.channels, options.width, {.kernel = 7, .stride = 2}));
  bn1_ = Slot<Layer>(parent, "bn1", ConvMaker::Norm(options.width));
  relu_ = Slot<Layer>(parent, "relu", ConvMaker::Relu());
  maxpool_ = Slot<Layer>(parent, "maxpool",
                         std::make_shared<MaxPool2dLayer>(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)));
  convs.set_side((convs.side() + 1) / 2);
  int64_t dilation = 1;
  for (int64_t stage = 0; stage < 4; ++stage) {
    auto blocks = std::make_shared<LayerList>();
    const int64_t planes = options.width << stage;
    const bool keeps_side = stage == 0 || stage >= 4 - dilated;
    ResNetBlockShape shape{.in = channels_,
                           .out = planes,
                           .stride = keeps_side ? 1 : 2,
                           .dilation = dilation,
                           .groups = options.groups,
                           .zero_last_norm = options.zero_init_residual};
    if (depth.bottleneck) {
      shape.out = 4 * planes;
      shape.width = planes * options.width_per_group / 64 * options.groups;
    }
    if (stage > 0 && keeps_side) dilation *= 2;  // from the stage's second block on
    for (int64_t i = 0; i < depth.blocks[static_cast<size_t>(stage)]; ++i) {
      blocks->Add(std::make_shared<ResNetBlock>(convs, shape));
      shape.in = shape.out;
      shape.stride = 1;
      shape.dilation = dilation;
    }
    channels_ = shape.out;
    stages_.push_back(parent.register_module(absl::StrCat("layer", stage + 1), blocks));
  }
}

at::Tensor ResNetBody::forward(const at::Tensor& inputs) const {
  CheckPictures(inputs, in_channels_);
  at::Tensor x = maxpool_->forward(NormActivation(*bn1_, *relu_, conv1_->forward(inputs)));
  for (const auto& blocks : stages_) {
    for (size_t i = 0; i < blocks->size(); ++i) x = (*blocks)[i].forward(x);
  }
  return x;
}

}  // namespace composer
