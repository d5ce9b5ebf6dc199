// What encoders with a task's head have in common: losses, metrics, operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/core/model.h"
#include "trainer/metrics/known_loss.h"
#include "trainer/models/hugging_face_model.h"

namespace composer {

enum class TextTask { kMaskedLm, kSequenceClassification, kTokenClassification, kFeatures, kEmbedding };
// Names are those of Hugging Face's `problem_type`.
enum class ProblemType { kSingleLabel, kMultiLabel, kRegression };

struct TextLossOptions {
  using MakeMetrics = std::vector<std::function<std::unique_ptr<Metric>()>>;

  TextTask task = TextTask::kSequenceClassification;
  ProblemType problem = ProblemType::kSingleLabel;  // of sequence classification
  double label_smoothing = 0;                       // in [0, 1); single label
  std::vector<double> class_weights;                // one a class, >= 0; empty: all 1; single label
  // When not given, the task decides; kMaskedLm: LanguageCrossEntropy and MaskedAccuracy; kTokenClassification:
  // MaskedAccuracy, with LanguageCrossEntropy in evaluation; kSequenceClassification: MulticlassAccuracy, with
  // CrossEntropy in evaluation; regression: PearsonCorrCoef and SpearmanCorrCoef in evaluation; others none.
  std::optional<MakeMetrics> train_metrics;
  std::optional<MakeMetrics> eval_metrics;
};

// Outputs are logits, [B, T, classes] or [B, classes]. The loss is
//   single label   targets int64 [B, T] or [B]: torch's cross_entropy with the weights and the smoothing, the mean over
//                  the targets that are not -100 (with weights: over the sum of their weights in the microbatch);
//                  targets of logits' shape [B, classes]: SoftCrossEntropy, without weights and smoothing
//   multi label    targets [B, classes], 0 or 1: the mean of binary_cross_entropy_with_logits
//   regression     targets [B] or [B, classes]: the mean square
// kFeatures and kEmbedding (embedding_model.h) have no loss of their own: loss throws c10::ValueError.
class TextHeadModel : public Model, public HuggingFaceModel {
 public:
  Loss loss(const Outputs& outputs, const Batch& batch) override;
  at::Tensor sample_losses(const Outputs& outputs, const Batch& batch) override;
  MetricList metrics(bool is_train) const override;
  double flops_per_sample() const override { return flops_per_sample_; }

 protected:
  explicit TextHeadModel(TextLossOptions options) : loss_options_(std::move(options)) {}

  double flops_per_sample_ = 0;  // forward and backward; set by derived classes

 private:
  at::Tensor CrossEntropyOf(const at::Tensor& logits, const at::Tensor& targets, int64_t reduction) const;

  // The loss is the plain cross-entropy, which the training metric of the same name then takes over.
  bool is_plain() const { return loss_options_.class_weights.empty() && loss_options_.label_smoothing == 0; }

  TextLossOptions loss_options_;
  std::shared_ptr<KnownLoss> known_ = std::make_shared<KnownLoss>();  // of the last training batch
};

}  // namespace composer
