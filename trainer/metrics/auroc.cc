// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/auroc.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <utility>

namespace composer {
namespace {

// Returns class 1's score of each sample, double [B]. Logits serve as well as probabilities: only their order counts.
at::Tensor ScoresOf(const at::Tensor& logits) {
  const at::Tensor scores = logits.detach().to(at::kDouble);
  if (scores.dim() == 2 && scores.size(1) == 2) return scores.select(1, 1) - scores.select(1, 0);
  TORCH_CHECK_VALUE(scores.dim() == 1 || (scores.dim() == 2 && scores.size(1) == 1),
                    "BinaryAUROC: outputs must be [B], [B, 1] or [B, 2], got ", logits.sizes());
  return scores.reshape({-1});
}

class BinaryAUROC final : public Metric {
 public:
  explicit BinaryAUROC(std::optional<int64_t> ignore_index) : ignore_index_(ignore_index) {}
  std::string name() const override { return "BinaryAUROC"; }
  absl::Span<double> sums() override { return {}; }
  absl::Span<std::vector<double>> lists() override { return absl::MakeSpan(scores_of_class_); }

  void Update(const Outputs& outputs, const Batch& batch) override {
    const at::Tensor scores = ScoresOf(outputs).cpu().contiguous();
    const at::Tensor targets = batch.targets.to(at::kLong).cpu().reshape({-1}).contiguous();
    TORCH_CHECK_VALUE(targets.numel() == scores.numel(), "BinaryAUROC: ", scores.numel(), " outputs for ",
                      targets.numel(), " targets");
    for (int64_t i = 0; i < targets.numel(); ++i) {
      const int64_t target = targets.data_ptr<int64_t>()[i];
      if (target == ignore_index_) continue;
      TORCH_CHECK_VALUE(target == 0 || target == 1, "BinaryAUROC: targets must be 0 or 1, got ", target);
      scores_of_class_[static_cast<size_t>(target)].push_back(scores.data_ptr<double>()[i]);
    }
  }

  // The Mann-Whitney statistic: pairs in the right order, over all pairs.
  double Compute() const override {
    auto [zeros, ones] = std::pair(scores_of_class_[0], scores_of_class_[1]);
    if (zeros.empty() || ones.empty()) return 0;
    std::sort(zeros.begin(), zeros.end());
    double right = 0;
    for (const double score : ones) {
      const auto [first, last] = std::equal_range(zeros.begin(), zeros.end(), score);
      right += static_cast<double>(first - zeros.begin()) + 0.5 * static_cast<double>(last - first);
    }
    return right / static_cast<double>(zeros.size()) / static_cast<double>(ones.size());
  }

 private:
  const std::optional<int64_t> ignore_index_;
  std::array<std::vector<double>, 2> scores_of_class_;
};

}  // namespace

std::unique_ptr<Metric> MakeBinaryAUROC(std::optional<int64_t> ignore_index) {
  return std::make_unique<BinaryAUROC>(ignore_index);
}

}  // namespace composer
