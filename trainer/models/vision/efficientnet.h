// EfficientNet. Tan and Le 2019, arXiv:1905.11946. Source: torchvision models/efficientnet.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/core/model.h"

namespace composer {

// These are B0's. B1 to B4 have width_mult 1, 1.1, 1.2, 1.4, depth_mult 1.1, 1.2, 1.4, 1.8, dropout 0.2, 0.3, 0.3, 0.4.
struct EfficientNetOptions {
  int64_t classes = 1000;
  int64_t channels = 3;  // of the input [B, channels, H, W]
  double width_mult = 1, depth_mult = 1;
  double dropout = 0.2;           // before the last layer
  double stochastic_depth = 0.2;  // the probability of leaving out a sample's branch of the last block; less before it
  int64_t image_size = 224;       // for flops_per_sample only
};

// A classifier with torchvision's names: features.0.0.weight, features.1.0.block.0.0.weight, …, classifier.1.weight.
// Throws c10::ValueError for options that do not fit.
std::shared_ptr<Model> MakeEfficientNet(const EfficientNetOptions& options);

}  // namespace composer
