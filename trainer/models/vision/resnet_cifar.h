// Composer's residual networks for small pictures: 9, 20 and 56 layers. He et al. 2015, arXiv:1512.03385, section 4.2;
// Page, "How to train your ResNet". Source: mosaicml composer 0.10 models/resnet_cifar/resnets.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/core/model.h"

namespace composer {

struct ResNetCifarOptions {
  int64_t depth = 9;  // 9, 20, 56
  int64_t classes = 10;
  int64_t channels = 3;     // of the input [B, channels, H, W]
  int64_t width = 0;        // of the first convolution; 0: 64 for 9 layers, else 16
  int64_t image_size = 32;  // for flops_per_sample only
};

// A classifier with Composer's names. 9 layers: body.0 … body.16, of which 7 and 16 are basic blocks, and fc; its norms
// outside of blocks have momentum 0.9. 20 and 56: conv, bn, blocks.0.{conv1,bn1,conv2,bn2,shortcut.0,shortcut.1}, fc.
// Throws c10::ValueError for another depth, and in forward for pictures below 8 pixels.
std::shared_ptr<Model> MakeResNetCifar(const ResNetCifarOptions& options);

}  // namespace composer
