// The common part of models that give each pixel a class. Source: mosaicml composer 0.10 models/deeplabv3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/core/model.h"

namespace composer {

struct SegmentationOptions {
  int64_t classes = 21;
  double cross_entropy_weight = 1, dice_weight = 0;  // at least 0, not both 0
  std::vector<double> class_weights;                 // of the cross-entropy, one a class, >= 0; empty: all 1
  int64_t ignore_index = -1;                         // pixels with this target do not count
};

// Outputs are logits [B, classes, H, W]; targets are int64 [B, H, W]. The loss is
//   cross_entropy_weight * cross_entropy + dice_weight * dice
// with torch's cross_entropy, the mean over the pixels that count (with weights: over the sum of their weights), and
// DiceLoss {softmax, batch, ignore_absent_classes}. Both are means over a microbatch. With both, the parts are logged,
// too. Metrics are MIoU and, in evaluation, CrossEntropy. sample_losses is there for the plain cross-entropy.
class Segmenter : public Model {
 public:
  Outputs forward(const Batch& batch) final { return Logits(batch.inputs); }
  Loss loss(const Outputs& outputs, const Batch& batch) final;
  at::Tensor sample_losses(const Outputs& outputs, const Batch& batch) final;
  MetricList metrics(bool is_train) const final;
  double flops_per_sample() const final { return flops_per_sample_; }

 protected:
  // Throws c10::ValueError that names the field.
  explicit Segmenter(SegmentationOptions options);
  // Maps inputs [B, *, H, W] to logits [B, classes, H, W].
  virtual at::Tensor Logits(const at::Tensor& inputs) = 0;

  double flops_per_sample_ = 0;  // forward and backward; set by derived classes

 private:
  at::Tensor CrossEntropyOf(const at::Tensor& logits, const at::Tensor& targets) const;

  SegmentationOptions segmentation_;
};

}  // namespace composer
