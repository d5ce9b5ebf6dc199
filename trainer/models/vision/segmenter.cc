// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/segmenter.h"

#include <torch/types.h>

#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/dice_loss.h"
#include "trainer/metrics/cross_entropy.h"
#include "trainer/metrics/segmentation.h"
#include "trainer/models/vision/conv_maker.h"

namespace composer {
namespace {

void CheckPixelTargets(const at::Tensor& logits, const at::Tensor& targets) {
  const bool fits = targets.scalar_type() == at::kLong && targets.dim() == 3 && targets.size(0) == logits.size(0) &&
                    targets.sizes().slice(1) == logits.sizes().slice(2);
  TORCH_CHECK_VALUE(fits, "model: logits ", logits.sizes(), " need targets int64 [B, H, W], got ",
                    targets.scalar_type(), " ", targets.sizes());
}

}  // namespace

Segmenter::Segmenter(SegmentationOptions options) : segmentation_(std::move(options)) {
  const SegmentationOptions& o = segmentation_;
  CheckModelSize("num_classes", o.classes);
  TORCH_CHECK_VALUE(o.cross_entropy_weight >= 0 && o.dice_weight >= 0 && o.cross_entropy_weight + o.dice_weight > 0,
                    "model.cross_entropy_weight and model.dice_weight: ", o.cross_entropy_weight, " and ",
                    o.dice_weight, " must be at least 0 and not both 0");
  TORCH_CHECK_VALUE(o.class_weights.empty() || static_cast<int64_t>(o.class_weights.size()) == o.classes,
                    "model.class_weights: ", o.class_weights.size(), " of them, but the model has ", o.classes,
                    " classes");
}

at::Tensor Segmenter::CrossEntropyOf(const at::Tensor& logits, const at::Tensor& targets) const {
  std::optional<at::Tensor> weights;
  if (!segmentation_.class_weights.empty())
    weights = torch::tensor(segmentation_.class_weights, torch::dtype(at::kFloat)).to(logits.options());
  try {
    return at::cross_entropy_loss(logits, targets, weights, at::Reduction::Mean, segmentation_.ignore_index);
  } catch (const c10::IndexError& error) {
    TORCH_CHECK_VALUE(false, "model: it has ", logits.size(1), " classes and ignore_index ", segmentation_.ignore_index,
                      ", which the data's targets do not fit: ", error.what_without_backtrace());
    throw;
  }
}

Loss Segmenter::loss(const Outputs& outputs, const Batch& batch) {
  const at::Tensor& logits = outputs.tensor();
  CheckPixelTargets(logits, batch.targets);
  const double entropy_weight = segmentation_.cross_entropy_weight, dice_weight = segmentation_.dice_weight;
  at::Tensor entropy, dice;
  if (entropy_weight > 0) entropy = CrossEntropyOf(logits, batch.targets);
  if (dice_weight > 0) {
    const at::Tensor targets = batch.targets.masked_fill(batch.targets.eq(segmentation_.ignore_index), -1);
    dice = DiceLoss(logits, targets, {.softmax = true, .batch = true, .ignore_absent_classes = true});
  }
  if (!dice.defined()) return entropy_weight * entropy;
  if (!entropy.defined()) return dice_weight * dice;
  return Loss({{"cross_entropy", entropy}, {"dice", dice}, {"total", entropy_weight * entropy + dice_weight * dice}});
}

at::Tensor Segmenter::sample_losses(const Outputs& outputs, const Batch& batch) {
  TORCH_CHECK_NOT_IMPLEMENTED(segmentation_.dice_weight == 0 && segmentation_.class_weights.empty(),
                              "model: a loss by sample is there for the cross-entropy without weights only");
  CheckPixelTargets(outputs.tensor(), batch.targets);
  const at::Tensor ignored = batch.targets.eq(segmentation_.ignore_index);
  return segmentation_.cross_entropy_weight *
         SoftCrossEntropyBySample(outputs.tensor(), batch.targets.masked_fill(ignored, kIgnoreIndex));
}

MetricList Segmenter::metrics(bool is_train) const {
  MetricList metrics;
  metrics.push_back(MakeMIoU(segmentation_.classes, segmentation_.ignore_index));
  if (!is_train) metrics.push_back(MakeCrossEntropy(/*batch_mean=*/false, segmentation_.ignore_index));
  return metrics;
}

}  // namespace composer
