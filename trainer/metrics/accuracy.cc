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
  // Returns whether torch's argmax of the row is `target`: the first of the largest, where NaN is larger than any
  // number. Compares all logits with the target's, without branches, so that the compiler takes several at a time.
  static bool IsArgMax(const float* row, int64_t classes, int64_t target) {
    if (target < 0 || target >= classes) return false;
    const float own = row[target];
    int before = 0;
    if (std::isnan(own)) {
      for (int64_t i = 0; i < target; ++i) before |= std::isnan(row[i]) ? 1 : 0;
      return before == 0;
    }
    for (int64_t i = 0; i < target; ++i) before |= row[i] < own ? 0 : 1;
    for (int64_t i = target + 1; i < classes; ++i) before |= row[i] <= own ? 0 : 1;
    return before == 0;
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
      right += IsArgMax(row, classes, target[i]) ? 1 : 0;
    }
    sums_.Add(static_cast<double>(right), static_cast<double>(counted));
  }

  std::optional<int64_t> ignore_index_;
};

class TopAccuracy final : public SummedMetric {
 public:
  explicit TopAccuracy(int64_t top_k) : SummedMetric("MulticlassAccuracyTop" + std::to_string(top_k)), top_k_(top_k) {}

  void Update(const Outputs& logits, const Batch& batch) override {
    const at::Tensor targets = batch.targets.dim() == logits->dim() ? batch.targets.argmax(-1) : batch.targets;
    const at::Tensor outputs = ClassesLast(logits, targets);
    TORCH_CHECK_VALUE(outputs.dim() >= 2 && targets.sizes() == outputs.sizes().slice(0, outputs.dim() - 1), name(),
                      ": outputs ", logits->sizes(), " do not fit targets ", batch.targets.sizes());
    if (targets.numel() == 0) return;
    const int64_t classes = outputs.size(-1);
    const at::Tensor known = (targets >= 0) & (targets < classes);
    const at::Tensor wanted = targets.to(torch::kInt64).clamp(0, classes - 1).unsqueeze(-1);
    const at::Tensor own = outputs.gather(-1, wanted);
    const at::Tensor earlier = torch::arange(classes, wanted.options()) < wanted;
    const at::Tensor before = ((outputs > own) | ((outputs == own) & earlier)).sum(-1);
    const at::Tensor right = ((before < top_k_) & known).sum();
    sums_.AddTensor(torch::stack({right, torch::full_like(right, targets.numel())}));
  }

 private:
  const int64_t top_k_;
};

}  // namespace

std::unique_ptr<Metric> MakeMulticlassAccuracy() {
  return std::make_unique<Accuracy>("MulticlassAccuracy", std::nullopt);
}

std::unique_ptr<Metric> MakeTopAccuracy(int64_t k) { return std::make_unique<TopAccuracy>(k); }

std::unique_ptr<Metric> MakeMaskedAccuracy(int64_t ignore_index) {
  return std::make_unique<Accuracy>("MaskedAccuracy", ignore_index);
}

}  // namespace composer
