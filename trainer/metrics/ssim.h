// How much pictures are like those that they should be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "trainer/core/metric.h"

namespace composer {

// "SSIM": the mean over pictures of the structural similarity, at each place of each channel
//
//   (2 mx my + (0.01 R)^2) (2 sxy + (0.03 R)^2) / ((mx^2 + my^2 + (0.01 R)^2) (sx^2 + sy^2 + (0.03 R)^2))
//
// of means, variances and the covariance under a Gaussian window of 11 x 11 with sigma 1.5, beyond whose edges the
// picture goes on as in a mirror. R = data_range is the largest value less the smallest, above 0: 2 for pictures of -1
// to 1. Compares the outputs [B, C, H, W], H and W >= 6, with the output `target` if there is one, else with the
// batch's targets. Wang et al. 2004; torchmetrics' StructuralSimilarityIndexMeasure(data_range=R). Throws
// c10::ValueError when the shapes do not fit.
std::unique_ptr<Metric> MakeSsim(double data_range);

}  // namespace composer
