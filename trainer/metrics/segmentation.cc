// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/segmentation.h"

#include <torch/types.h>

#include "trainer/metrics/class_counts.h"

namespace composer {
namespace {

class MIoU final : public CountedMetric {
 public:
  MIoU(int64_t num_classes, std::optional<int64_t> ignore_index) : CountedMetric("MIoU", num_classes, ignore_index) {}

 private:
  double FromCounts(absl::Span<const ClassCount> counts) const override {
    double total = 0, classes = 0;
    for (const ClassCount& count : counts) {
      const double area = count.predicted + count.actual - count.right;
      if (area == 0) continue;
      total += count.right / area;
      classes += 1;
    }
    return 100 * total / classes;
  }
};

class Dice final : public CountedMetric {
 public:
  explicit Dice(int64_t num_classes) : CountedMetric("Dice", num_classes, std::nullopt) {}

 private:
  double FromCounts(absl::Span<const ClassCount> counts) const override {
    double total = 0;
    for (const ClassCount& count : counts.subspan(1)) {
      const double areas = count.predicted + count.actual;
      total += areas == 0 ? 1 : 2 * count.right / areas;
    }
    return 100 * total / static_cast<double>(counts.size() - 1);
  }
};

class BatchMeanDice final : public SummedMetric {
 public:
  explicit BatchMeanDice(int64_t num_classes) : SummedMetric("Dice"), num_classes_(num_classes) {}

  void Update(const Outputs& outputs, const Batch& batch) override {
    if (batch.targets.numel() == 0) return;
    TORCH_CHECK_VALUE(outputs->dim() >= 2 && outputs->size(1) == num_classes_, "Dice: num_classes is ", num_classes_,
                      ", but the outputs are ", outputs->sizes(), " [B, C, *]");
    const at::Tensor counts = CountClasses("Dice", outputs, batch.targets, std::nullopt).slice(1, 1).to(torch::kDouble);
    const at::Tensor areas = counts[1] + counts[2];
    const at::Tensor dice = torch::where(areas == 0, 1.0, 2 * counts[0] / areas).mean();
    sums_.AddTensor(torch::stack({100 * dice, torch::ones_like(dice)}));
  }

 private:
  int64_t num_classes_;
};

}  // namespace

std::unique_ptr<Metric> MakeMIoU(int64_t num_classes, std::optional<int64_t> ignore_index) {
  return std::make_unique<MIoU>(num_classes, ignore_index);
}

std::unique_ptr<Metric> MakeDice(int64_t num_classes, bool batch_mean) {
  TORCH_CHECK_VALUE(num_classes >= 2, "Dice: num_classes: ", num_classes, ", must be at least 2: a background and one");
  if (batch_mean) return std::make_unique<BatchMeanDice>(num_classes);
  return std::make_unique<Dice>(num_classes);
}

}  // namespace composer
