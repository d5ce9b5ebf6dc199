// The U-Net with batch norms and learned upsampling. Ronneberger et al. 2015, arXiv:1505.04597.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/core/model.h"
#include "trainer/models/vision/segmenter.h"

namespace composer {

struct UNetOptions {
  SegmentationOptions segmentation{.classes = 2};
  int64_t channels = 3;                                     // of the input [B, channels, H, W]
  std::vector<int64_t> widths = {64, 128, 256, 512, 1024};  // from the whole picture down; at least 2
  int64_t image_size = 256;                                 // for flops_per_sample only
};

// Two convolutions a level, max pooling down, transposed convolutions up, and the other half's pictures beside them.
// Odd sizes are padded on the way up. The names are those of the well-known Pytorch-UNet: inc.double_conv.{0,1,3,4},
// down1.maxpool_conv.1.double_conv.0, up1.up, up1.conv.double_conv.0, outc.conv. Throws c10::ValueError for options
// that do not fit, and in forward for pictures that are too small for the levels.
std::shared_ptr<Model> MakeUNet(const UNetOptions& options);

}  // namespace composer
