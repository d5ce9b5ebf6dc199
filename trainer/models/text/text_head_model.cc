// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/text_head_model.h"

#include <torch/types.h>

#include "trainer/layers/fused_layers.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/correlation.h"
#include "trainer/metrics/cross_entropy.h"

namespace composer {

// Returns a loss of each target, or their mean.
at::Tensor TextHeadModel::CrossEntropyOf(const at::Tensor& logits, const at::Tensor& targets, int64_t reduction) const {
  std::optional<at::Tensor> weights;
  if (!loss_options_.class_weights.empty())
    weights = torch::tensor(loss_options_.class_weights, torch::dtype(at::kFloat)).to(logits.options());
  TORCH_CHECK_VALUE(targets.sizes() == logits.sizes().slice(0, logits.dim() - 1), "model: logits ", logits.sizes(),
                    " need targets ", logits.sizes().slice(0, logits.dim() - 1), ", got ", targets.sizes());
  try {
    if (reduction == at::Reduction::Mean && !weights && loss_options_.label_smoothing == 0)
      return MeanCrossEntropy(logits.flatten(0, -2), targets.flatten(), kIgnoreIndex);
    return at::cross_entropy_loss(logits.flatten(0, -2), targets.flatten(), weights, reduction, kIgnoreIndex,
                                  loss_options_.label_smoothing);
  } catch (const c10::IndexError& error) {
    TORCH_CHECK_VALUE(false, "model: it has ", logits.size(-1),
                      " classes, which the data's labels do not fit: ", error.what_without_backtrace());
    throw;
  }
}

Loss TextHeadModel::loss(const Outputs& outputs, const Batch& batch) {
  TORCH_CHECK_VALUE(loss_options_.task != TextTask::kFeatures,
                    "model.task: features has no loss; choose masked_lm, sequence_classification, "
                    "token_classification or embedding to train");
  const at::Tensor& logits = outputs.tensor();
  const at::Tensor& targets = batch.targets;
  switch (loss_options_.problem) {
    case ProblemType::kRegression:
      return at::mse_loss(logits.reshape(targets.sizes()), targets.to(logits.scalar_type()));
    case ProblemType::kMultiLabel:
      return at::binary_cross_entropy_with_logits(logits, targets.to(logits.scalar_type()));
    case ProblemType::kSingleLabel:
      break;
  }
  if (targets.is_floating_point()) return SoftCrossEntropy(logits, targets);
  at::Tensor mean = CrossEntropyOf(logits, targets, at::Reduction::Mean);
  if (is_plain()) known_->Set(logits, targets, mean.detach());
  return mean;
}

at::Tensor TextHeadModel::sample_losses(const Outputs& outputs, const Batch& batch) {
  const at::Tensor& logits = outputs.tensor();
  const at::Tensor& targets = batch.targets;
  TORCH_CHECK_NOT_IMPLEMENTED(
      loss_options_.problem == ProblemType::kSingleLabel && is_plain() && loss_options_.task != TextTask::kFeatures,
      "model: a loss by sample is there for classes without weights and smoothing only");
  if (targets.is_floating_point()) return SoftCrossEntropyBySample(logits, targets);
  const int64_t samples = logits.size(0);
  const at::Tensor losses = CrossEntropyOf(logits, targets, at::Reduction::None).view({samples, -1});
  return losses.sum(1) / targets.ne(kIgnoreIndex).reshape({samples, -1}).sum(1).clamp_min(1);
}

MetricList TextHeadModel::metrics(bool is_train) const {
  MetricList metrics;
  if (const auto& chosen = is_train ? loss_options_.train_metrics : loss_options_.eval_metrics) {
    for (const auto& make : *chosen) metrics.push_back(make());
    return metrics;
  }
  const TextTask task = loss_options_.task;
  if (task == TextTask::kMaskedLm || (task == TextTask::kTokenClassification && !is_train))
    metrics.push_back(MakeLanguageCrossEntropy(kIgnoreIndex, {}, is_train ? known_ : nullptr));
  if (task == TextTask::kMaskedLm || task == TextTask::kTokenClassification) metrics.push_back(MakeMaskedAccuracy());
  if (task != TextTask::kSequenceClassification) return metrics;
  if (loss_options_.problem == ProblemType::kSingleLabel) {
    metrics.push_back(MakeMulticlassAccuracy());
    if (!is_train) metrics.push_back(MakeCrossEntropy());
  } else if (loss_options_.problem == ProblemType::kRegression && !is_train) {
    metrics.push_back(MakePearsonCorrCoef());
    metrics.push_back(MakeSpearmanCorrCoef());
  }
  return metrics;
}

}  // namespace composer
