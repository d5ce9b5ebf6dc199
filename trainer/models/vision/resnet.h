// The ResNets of torchvision and timm: 18, 34, 50, 101 and 152 layers, ResNeXt and wide ones. Source: torchvision
// models/resnet.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/core/model.h"

namespace composer {

struct ResNetOptions {
  int64_t depth = 50;  // 18, 34, 50, 101, 152
  int64_t classes = 1000;
  int64_t channels = 3;          // of the input [B, channels, H, W]
  int64_t width = 64;            // channels of the first stage
  int64_t groups = 1;            // of a bottleneck's 3x3 convolutions, with width_per_group: ResNeXt-50 32x4d is 32, 4
  int64_t width_per_group = 64;  // 128: the wide ResNets
  int64_t image_size = 224;      // for flops_per_sample only
  bool zero_init_residual = false;  // the last norm of each block begins with 0, so that a block begins as its shortcut
};

// A classifier with torchvision's names: conv1.weight, bn1.*, layer1.0.{conv1,bn1,conv2,bn2,conv3,bn3},
// layer1.0.downsample.{0,1}, fc.*. Convolutions begin with He's normal (fan out). Throws c10::ValueError for options
// that no ResNet has.
std::shared_ptr<Model> MakeResNet(const ResNetOptions& options);

}  // namespace composer
