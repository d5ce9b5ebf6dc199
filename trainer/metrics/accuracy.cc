// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/accuracy.h"

#include <torch/types.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "trainer/metrics/classes_last.h"
#include "trainer/metrics/metric_sums.h"

namespace composer {
namespace {

class Accuracy final : public SummedMetric {
 public:
  Accuracy(std::string name, std::optional<int64_t> ignore_index)
      : SummedMetric(std::move(name)), ignore_index_(ignore_index) {}

  void Update(const Outputs& logits, const Batch& batch) override {
    const at::Tensor targets = batch.targets.dim() == logits->dim() ? batch.targets.argmax(-1) : batch.targets;
    const at::Tensor outputs = ClassesLast(logits, targets);
    TORCH_CHECK_VALUE(outputs.dim() >= 2 && targets.sizes() == outputs.sizes().slice(0, outputs.dim() - 1), name(),
                      ": outputs ", logits->sizes(), " do not fit targets ", batch.targets.sizes());
    if (targets.numel() == 0) return;
    if (outputs.is_cpu() && targets.is_cpu() && targets.scalar_type() == torch::kInt64) {
      CountOnCpu(outputs.to(torch::kFloat).contiguous(), targets.contiguous());
      return;
    }
    const at::Tensor right = outputs.argmax(-1) == targets;
    const at::Tensor counted = ignore_index_ ? targets != *ignore_index_ : torch::ones_like(right);
    sums_.AddTensor(torch::stack({(right & counted).sum(), counted.sum()}));
  }

 private:
  // Same as torch's argmax: the first of the largest, where NaN is larger than any number.
  static int64_t ArgMax(const float* row, int64_t classes) {
    int64_t best = 0;
    for (int64_t i = 1; i < classes; ++i) {
      if (!(row[i] <= row[best]) && !std::isnan(row[best])) best = i;
    }
    return best;
  }

  // This is a plain loop because a chain of tensor operations costs ten times as much for a small batch.
  void CountOnCpu(const at::Tensor& outputs, const at::Tensor& targets) {
    const int64_t classes = outputs.size(-1), rows = targets.numel();
    const float* row = outputs.data_ptr<float>();
    const int64_t* target = targets.data_ptr<int64_t>();
    int64_t right = 0, counted = 0;
    for (int64_t i = 0; i < rows; ++i, row += classes) {
      if (ignore_index_ && target[i] == *ignore_index_) continue;
      ++counted;
      right += ArgMax(row, classes) == target[i];
    }
    sums_.Add(static_cast<double>(right), static_cast<double>(counted));
  }

  std::optional<int64_t> ignore_index_;
};

}  // namespace

std::unique_ptr<Metric> MakeMulticlassAccuracy() {
  return std::make_unique<Accuracy>("MulticlassAccuracy", std::nullopt);
}

std::unique_ptr<Metric> MakeMaskedAccuracy(int64_t ignore_index) {
  return std::make_unique<Accuracy>("MaskedAccuracy", ignore_index);
}

}  // namespace composer
