// A small residual network in the style of the CIFAR ResNets. He et al. 2015, arXiv:1512.03385, section 4.2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/core/model.h"

namespace composer {

struct ResNetSmallOptions {
  int64_t channels = 1;  // of the input [B, channels, H, W]
  int64_t classes = 10;
  std::vector<int64_t> widths = {16, 32, 64};  // one per stage; every stage but the first halves the image
  int64_t blocks = 1;                          // basic blocks per stage
  int64_t stem_stride = 2;                     // 1 keeps the whole image in the first stage: better and slower
  int64_t image_size = 28;                     // for flops_per_sample only
};

// The layers are conv 3x3, batch norm, ReLU; stages of basic blocks; the mean over the image; linear. Convolutions are
// initialised by He's normal (fan out), from torch's generator. Names are torchvision's: conv1.weight, bn1.weight,
// layer1.0.conv1.weight, …, layer2.0.downsample.0.weight, fc.weight. Throws c10::ValueError for invalid options.
std::shared_ptr<Model> MakeResNetSmall(const ResNetSmallOptions& options);

}  // namespace composer
