// DeepLabV3 on a ResNet. Chen et al. 2017, arXiv:1706.05587. Source: torchvision models/segmentation/deeplabv3.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/core/model.h"
#include "trainer/models/vision/resnet.h"
#include "trainer/models/vision/segmenter.h"

namespace composer {

struct DeepLabV3Options {
  ResNetOptions backbone{.image_size = 512};  // depth 50, 101 or 152; `classes` is not read
  SegmentationOptions segmentation;
  int64_t head_width = 256;
  std::vector<int64_t> atrous_rates = {12, 24, 36};
  double dropout = 0.5;
};

// The last two stages of the ResNet are dilated, so that logits are computed for H/8 x W/8 pixels and interpolated. The
// names are torchvision's, without its auxiliary head: backbone.conv1.weight, …, classifier.0.convs.0.0.weight,
// classifier.0.project.0.weight, classifier.4.weight. Throws c10::ValueError for options that do not fit; in forward
// for a training batch of one picture, over which the pooled branch cannot normalise.
std::shared_ptr<Model> MakeDeepLabV3(const DeepLabV3Options& options);

}  // namespace composer
