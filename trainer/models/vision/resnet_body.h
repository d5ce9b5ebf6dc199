// What the residual networks of this room share: the blocks, and torchvision's body of four stages. He et al. 2015,
// arXiv:1512.03385; a bottleneck's stride is in its second convolution ("v1.5"). Source: torchvision models/resnet.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trainer/core/block.h"
#include "trainer/layers/residual_sum.h"
#include "trainer/models/vision/conv_maker.h"
#include "trainer/models/vision/resnet.h"

namespace composer {

struct ResNetBlockShape {
  int64_t in = 0, out = 0;
  int64_t width = 0;  // of a bottleneck's inner convolutions; 0: a basic block
  int64_t stride = 1, dilation = 1, groups = 1;
  bool zero_last_norm = false;
  const char* shortcut = "downsample";  // the name of conv 1x1 and norm, which are there where the shape changes
};

// relu(x' + branch(x)); the branch is conv 3x3, 3x3 or, of a bottleneck, 1x1, 3x3, 1x1, each with a norm and, but for
// the last, ReLU. Children: conv1, bn1, conv2, bn2, (conv3, bn3,) relu, downsample.
class ResNetBlock final : public Block {
 public:
  ResNetBlock(ConvMaker& convs, const ResNetBlockShape& shape);

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override;

 private:
  void Add(ConvMaker& convs, int64_t in, int64_t out, const ConvShape& shape, bool zero_norm = false);

  std::vector<Slot<Layer>> convs_, norms_;
  Slot<Layer> relu_, shortcut_;
  Slot<ResidualSum> sum_;
};

// conv1, bn1, relu, maxpool, layer1 … layer4, which it registers with `parent`; no module itself, since the names have
// no prefix of its own.
class ResNetBody {
 public:
  ResNetBody() = default;
  // dilated: of the last so many stages, strides become dilations, so that the picture keeps its size. Throws
  // c10::ValueError for options that no ResNet has.
  ResNetBody(torch::nn::Module& parent, const ResNetOptions& options, ConvMaker& convs, int64_t dilated = 0);
  // [B, channels of a picture, H, W] to [B, channels(), H/32, W/32].
  at::Tensor forward(const at::Tensor& inputs) const;
  int64_t channels() const { return channels_; }

 private:
  Slot<Layer> conv1_, bn1_, relu_, maxpool_;
  std::vector<std::shared_ptr<LayerList>> stages_;
  int64_t in_channels_ = 0, channels_ = 0;
};

}  // namespace composer
