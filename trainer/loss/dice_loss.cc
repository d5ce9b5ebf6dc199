// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss/dice_loss.h"

#include <torch/types.h>

#include <vector>

#include "trainer/loss/one_hot.h"

namespace composer {
namespace {

constexpr double kEpsilon = 1e-5;

std::vector<int64_t> SummedDimensions(const at::Tensor& inputs, bool batch) {
  std::vector<int64_t> dimensions;
  if (batch) dimensions.push_back(0);
  for (int64_t i = 2; i < inputs.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

at::Tensor Sum(const at::Tensor& values, const std::vector<int64_t>& dimensions) {
  return dimensions.empty() ? values : values.sum(dimensions);  // an empty list would mean all dimensions
}

}  // namespace

at::Tensor DiceLoss(const at::Tensor& inputs, const at::Tensor& targets, const DiceLossOptions& options) {
  TORCH_CHECK_VALUE(!(options.sigmoid && options.softmax), "dice loss: sigmoid and softmax exclude each other");
  at::Tensor truth = OneHotTargets("dice loss", inputs, targets);
  at::Tensor predicted = inputs;
  if (options.sigmoid) predicted = predicted.sigmoid();
  if (options.softmax && inputs.size(1) > 1) predicted = predicted.softmax(1);
  const std::vector<int64_t> over = SummedDimensions(inputs, options.batch);
  const at::Tensor has_target = truth.sum(1, /*keepdim=*/true) != 0;
  const at::Tensor overlap = Sum(truth * predicted, over);
  if (options.squared_pred) {
    truth = truth.square();
    predicted = predicted.square();
  }
  const at::Tensor true_area = Sum(truth, over);
  at::Tensor area = true_area + Sum(has_target * predicted, over);
  if (options.jaccard) area = 2 * (area - overlap);
  at::Tensor losses = 1 - (2 * overlap + kEpsilon) / (area + kEpsilon);
  if (!options.ignore_absent_classes) return options.sum ? losses.sum() : losses.mean();
  const at::Tensor present = (options.batch ? true_area : true_area.sum(0)) > 0;  // [C]
  losses = losses * present;
  if (options.sum) return losses.sum();
  const int64_t rows = options.batch ? 1 : inputs.size(0);
  return losses.sum() / (present.sum() * rows);
}

}  // namespace composer
