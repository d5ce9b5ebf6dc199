// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/confusion_matrix.h"

#include <torch/types.h>

#include <cmath>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

class ConfusionMatrix final : public TableMetric {
 public:
  ConfusionMatrix(int64_t num_classes, std::optional<int64_t> ignore_index)
      : TableMetric("MulticlassConfusionMatrix", static_cast<size_t>(num_classes * num_classes)),
        classes_(num_classes),
        ignore_index_(ignore_index) {}

  void Update(const Outputs& outputs, const Batch& batch) override {
    if (batch.targets.numel() == 0) return;
    const at::Tensor targets = batch.targets.dim() == outputs->dim() ? batch.targets.argmax(1) : batch.targets;
    TORCH_CHECK_VALUE(outputs->dim() >= 2 && outputs->size(1) == classes_ && targets.size(0) == outputs->size(0) &&
                          targets.sizes().slice(1) == outputs->sizes().slice(2),
                      name(), ": outputs ", outputs->sizes(), " [B, ", classes_, ", *] do not fit targets ",
                      batch.targets.sizes());
    const at::Tensor actual = targets.to(torch::kInt64).flatten(), predicted = outputs->argmax(1).flatten();
    at::Tensor counts = (actual >= 0) & (actual < classes_);
    if (ignore_index_.has_value()) counts = counts & (actual != *ignore_index_);
    const int64_t places = classes_ * classes_;  // and one more for what does not count
    const at::Tensor place = torch::where(counts, actual * classes_ + predicted, places);
    const at::Tensor met = torch::zeros({places + 1}, place.options());
    met.scatter_add_(0, place, torch::ones_like(place));
    sums_.AddTensor(met.slice(0, 0, places));
  }

  double Compute() const override {
    double right = 0, all = 0;
    const std::vector<double> counts = Counts();
    for (size_t i = 0; i < counts.size(); ++i) {
      right += i % static_cast<size_t>(classes_ + 1) == 0 ? counts[i] : 0;
      all += counts[i];
    }
    return all == 0 ? NAN : right / all;
  }

  Table ToTable() const override {
    Table table;
    table.columns.emplace_back("target");
    for (int64_t i = 0; i < classes_; ++i) table.columns.push_back(absl::StrCat(i));
    const std::vector<double> counts = Counts();
    const auto width = static_cast<size_t>(classes_);
    for (size_t row = 0; row < width; ++row) {
      std::vector<std::string>& cells = table.rows.emplace_back(1, absl::StrCat(row));
      for (size_t i = 0; i < width; ++i) cells.push_back(absl::StrCat(std::llround(counts[row * width + i])));
    }
    return table;
  }

 private:
  std::vector<double> Counts() const {
    MetricSums all = sums_;
    const absl::Span<const double> counts = all.Get();
    return {counts.begin(), counts.end()};
  }

  const int64_t classes_;
  const std::optional<int64_t> ignore_index_;
};

}  // namespace

std::unique_ptr<TableMetric> MakeMulticlassConfusionMatrix(int64_t num_classes, std::optional<int64_t> ignore_index) {
  return std::make_unique<ConfusionMatrix>(num_classes, ignore_index);
}

}  // namespace composer
