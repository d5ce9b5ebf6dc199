// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss/classifier_loss.h"

#include <torch/types.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "trainer/loss/binary_cross_entropy.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/dice_loss.h"
#include "trainer/loss/one_hot.h"

namespace composer {
namespace {

using Options = ClassifierLossOptions;

at::Tensor BySample(const at::Tensor& losses) { return losses.reshape({losses.size(0), -1}).mean(1); }

std::optional<at::Tensor> Weights(const Options& options, const at::Tensor& outputs) {
  if (options.class_weights.empty()) return std::nullopt;
  return torch::tensor(options.class_weights, at::kDouble).to(outputs.options());
}

int64_t ReductionOf(const Options& options) { return options.sum ? at::Reduction::Sum : at::Reduction::Mean; }

at::Tensor CrossEntropyMean(const at::Tensor& outputs, const at::Tensor& targets, const Options& options) {
  return at::cross_entropy_loss(outputs, targets, Weights(options, outputs), ReductionOf(options), kIgnoreIndex,
                                options.label_smoothing);
}
at::Tensor CrossEntropyBySample(const at::Tensor& outputs, const at::Tensor& targets) {
  if (!targets.is_floating_point()) return SoftCrossEntropyBySample(outputs, targets);
  return BySample(at::cross_entropy_loss(outputs, targets, {}, at::Reduction::None, kIgnoreIndex));
}

// Composer's of dense targets is over the sum of the targets, of class indices torch's.
at::Tensor SoftCrossEntropyMean(const at::Tensor& outputs, const at::Tensor& targets, const Options& options) {
  if (options.is_default()) return SoftCrossEntropy(outputs, targets);
  if (!targets.is_floating_point()) return CrossEntropyMean(outputs, targets, options);
  Options sum = options;
  sum.sum = true;
  const at::Tensor total = CrossEntropyMean(outputs, targets, sum);
  return options.sum ? total : total / targets.sum();
}

at::Tensor BinaryMean(const at::Tensor& outputs, const at::Tensor& targets, const Options& options) {
  if (options.is_default()) return BinaryCrossEntropyWithLogits(outputs, targets);
  const at::Tensor dense = OneHotTargets("binary_cross_entropy_with_logits", outputs, targets);
  std::vector<int64_t> shape(static_cast<size_t>(outputs.dim()), 1);
  shape[1] = -1;
  const at::Tensor weights = Weights(options, outputs)->view(shape);
  return at::binary_cross_entropy_with_logits(outputs, dense, weights, {}, at::Reduction::Sum) / outputs.size(0);
}
at::Tensor BinaryBySample(const at::Tensor& outputs, const at::Tensor& targets) {
  const at::Tensor dense = OneHotTargets("binary_cross_entropy_with_logits", outputs, targets);
  return at::binary_cross_entropy_with_logits(outputs, dense, {}, {}, at::Reduction::None).flatten(1).sum(1);
}

at::Tensor NllMean(const at::Tensor& outputs, const at::Tensor& targets, const Options& options) {
  return at::nll_loss_nd(outputs, targets, Weights(options, outputs), ReductionOf(options), kIgnoreIndex);
}
at::Tensor NllBySample(const at::Tensor& outputs, const at::Tensor& targets) {
  const at::Tensor losses = at::nll_loss_nd(outputs, targets, {}, at::Reduction::None, kIgnoreIndex);
  const at::Tensor counts = targets.ne(kIgnoreIndex).reshape({targets.size(0), -1}).sum(1).clamp_min(1);
  return losses.reshape({losses.size(0), -1}).sum(1) / counts;
}

at::Tensor MseMean(const at::Tensor& outputs, const at::Tensor& targets, const Options& options) {
  return at::mse_loss(outputs, OneHotTargets("mse_loss", outputs, targets), ReductionOf(options));
}
at::Tensor MseBySample(const at::Tensor& outputs, const at::Tensor& targets) {
  return BySample(at::mse_loss(outputs, OneHotTargets("mse_loss", outputs, targets), at::Reduction::None));
}

at::Tensor L1Mean(const at::Tensor& outputs, const at::Tensor& targets, const Options& options) {
  return at::l1_loss(outputs, OneHotTargets("l1_loss", outputs, targets), ReductionOf(options));
}
at::Tensor L1BySample(const at::Tensor& outputs, const at::Tensor& targets) {
  return BySample(at::l1_loss(outputs, OneHotTargets("l1_loss", outputs, targets), at::Reduction::None));
}

at::Tensor DiceMean(const at::Tensor& outputs, const at::Tensor& targets, const Options& /*options*/) {
  return DiceLoss(outputs, targets, {.softmax = true});
}

struct LossRow {
  const char* name;
  at::Tensor (*mean)(const at::Tensor& outputs, const at::Tensor& targets, const Options& options);
  at::Tensor (*by_sample)(const at::Tensor& outputs, const at::Tensor& targets);
  bool has_weights, has_smoothing, has_sum;
};
constexpr LossRow kLossRows[] = {
    {"soft_cross_entropy", SoftCrossEntropyMean, SoftCrossEntropyBySample, true, true, true},
    {"cross_entropy", CrossEntropyMean, CrossEntropyBySample, true, true, true},
    {"binary_cross_entropy_with_logits", BinaryMean, BinaryBySample, true, false, false},
    {"nll_loss", NllMean, NllBySample, true, false, true},
    {"mse_loss", MseMean, MseBySample, false, false, true},
    {"l1_loss", L1Mean, L1BySample, false, false, true},
    {"dice_loss", DiceMean, nullptr, false, false, false},
};

absl::Status CheckOptions(const LossRow& row, const Options& options) {
  const char* const lacking = !row.has_weights && !options.class_weights.empty()   ? "class_weights"
                              : !row.has_smoothing && options.label_smoothing != 0 ? "label_smoothing"
                              : !row.has_sum && options.sum                        ? "loss_reduction: sum"
                                                                                   : nullptr;
  if (lacking == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(lacking, ": `", row.name, "` has none"));
}

}  // namespace

absl::StatusOr<ClassifierLoss> ClassifierLossByName(absl::string_view name, const ClassifierLossOptions& options) {
  for (const LossRow& row : kLossRows) {
    if (name != row.name) continue;
    RETURN_IF_ERROR(CheckOptions(row, options));
    ClassifierLoss loss;
    loss.mean = [mean = row.mean, options](const at::Tensor& outputs, const at::Tensor& targets) {
      return mean(outputs, targets, options);
    };
    if (row.by_sample != nullptr && options.is_default()) loss.by_sample = row.by_sample;
    return loss;
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
