// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/f1_score.h"

#include "trainer/metrics/class_counts.h"

namespace composer {
namespace {

// Returns 0 when the class is neither predicted nor true, same as torchmetrics.
double Score(const ClassCount& count) {
  const double total = count.predicted + count.actual;
  return total == 0 ? 0 : 2 * count.right / total;
}

class BinaryF1Score final : public CountedMetric {
 public:
  explicit BinaryF1Score(std::optional<int64_t> ignore_index) : CountedMetric("BinaryF1Score", 2, ignore_index) {}

 private:
  double FromCounts(absl::Span<const ClassCount> counts) const override { return Score(counts[1]); }
  double OfNothing() const override { return 0; }
};

class MulticlassF1Score final : public CountedMetric {
 public:
  MulticlassF1Score(int64_t num_classes, F1Average average, std::optional<int64_t> ignore_index)
      : CountedMetric("MulticlassF1Score", num_classes, ignore_index), average_(average) {}

 private:
  double FromCounts(absl::Span<const ClassCount> counts) const override {
    ClassCount all;
    double scores = 0, weights = 0;
    for (const ClassCount& count : counts) {
      all = {all.right + count.right, all.predicted + count.predicted, all.actual + count.actual};
      const double occurs = count.predicted + count.actual > 0 ? 1 : 0;
      const double weight = average_ == F1Average::kWeighted ? count.actual : occurs;
      scores += weight * Score(count);
      weights += weight;
    }
    if (average_ == F1Average::kMicro) return Score(all);
    return weights == 0 ? 0 : scores / weights;
  }
  double OfNothing() const override { return 0; }

  F1Average average_;
};

}  // namespace

std::unique_ptr<Metric> MakeBinaryF1Score(std::optional<int64_t> ignore_index) {
  return std::make_unique<BinaryF1Score>(ignore_index);
}

std::unique_ptr<Metric> MakeMulticlassF1Score(int64_t num_classes, F1Average average,
                                              std::optional<int64_t> ignore_index) {
  return std::make_unique<MulticlassF1Score>(num_classes, average, ignore_index);
}

}  // namespace composer
