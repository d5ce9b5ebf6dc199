// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss/classifier_loss.h"

#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "trainer/loss/binary_cross_entropy.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/dice_loss.h"
#include "trainer/loss/one_hot.h"

namespace composer {
namespace {

at::Tensor BySample(const at::Tensor& losses) { return losses.reshape({losses.size(0), -1}).mean(1); }

at::Tensor CrossEntropyMean(const at::Tensor& outputs, const at::Tensor& targets) {
  return at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Mean, kIgnoreIndex);
}
at::Tensor CrossEntropyBySample(const at::Tensor& outputs, const at::Tensor& targets) {
  if (!targets.is_floating_point()) return SoftCrossEntropyBySample(outputs, targets);
  return BySample(at::cross_entropy_loss(outputs, targets, {}, at::Reduction::None, kIgnoreIndex));
}

at::Tensor BinaryBySample(const at::Tensor& outputs, const at::Tensor& targets) {
  const at::Tensor dense = OneHotTargets("binary_cross_entropy_with_logits", outputs, targets);
  return at::binary_cross_entropy_with_logits(outputs, dense, {}, {}, at::Reduction::None).flatten(1).sum(1);
}

at::Tensor NllMean(const at::Tensor& outputs, const at::Tensor& targets) {
  return at::nll_loss_nd(outputs, targets, {}, at::Reduction::Mean, kIgnoreIndex);
}
at::Tensor NllBySample(const at::Tensor& outputs, const at::Tensor& targets) {
  const at::Tensor losses = at::nll_loss_nd(outputs, targets, {}, at::Reduction::None, kIgnoreIndex);
  const at::Tensor counts = targets.ne(kIgnoreIndex).reshape({targets.size(0), -1}).sum(1).clamp_min(1);
  return losses.reshape({losses.size(0), -1}).sum(1) / counts;
}

at::Tensor MseMean(const at::Tensor& outputs, const at::Tensor& targets) {
  return at::mse_loss(outputs, OneHotTargets("mse_loss", outputs, targets));
}
at::Tensor MseBySample(const at::Tensor& outputs, const at::Tensor& targets) {
  return BySample(at::mse_loss(outputs, OneHotTargets("mse_loss", outputs, targets), at::Reduction::None));
}

at::Tensor L1Mean(const at::Tensor& outputs, const at::Tensor& targets) {
  return at::l1_loss(outputs, OneHotTargets("l1_loss", outputs, targets));
}
at::Tensor L1BySample(const at::Tensor& outputs, const at::Tensor& targets) {
  return BySample(at::l1_loss(outputs, OneHotTargets("l1_loss", outputs, targets), at::Reduction::None));
}

at::Tensor DiceMean(const at::Tensor& outputs, const at::Tensor& targets) {
  return DiceLoss(outputs, targets, {.softmax = true});
}

struct LossRow {
  const char* name;
  ClassifierLoss loss;
};
constexpr LossRow kLossRows[] = {
    {"soft_cross_entropy", {SoftCrossEntropy, SoftCrossEntropyBySample}},
    {"cross_entropy", {CrossEntropyMean, CrossEntropyBySample}},
    {"binary_cross_entropy_with_logits", {BinaryCrossEntropyWithLogits, BinaryBySample}},
    {"nll_loss", {NllMean, NllBySample}},
    {"mse_loss", {MseMean, MseBySample}},
    {"l1_loss", {L1Mean, L1BySample}},
    {"dice_loss", {DiceMean, nullptr}},
};

}  // namespace

absl::StatusOr<ClassifierLoss> ClassifierLossByName(absl::string_view name) {
  for (const LossRow& row : kLossRows) {
    if (name == row.name) return row.loss;
  }
  const std::vector<std::string> names = ClassifierLossNames();
  return absl::InvalidArgumentError(
      absl::StrCat("`", name, "` is not one of ", absl::StrJoin(names, ", "), DidYouMean(name, names)));
}

std::vector<std::string> ClassifierLossNames() {
  std::vector<std::string> names;
  for (const LossRow& row : kLossRows) names.emplace_back(row.name);
  return names;
}

}  // namespace composer
