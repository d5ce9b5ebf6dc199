// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/cross_entropy.h"

#include <torch/types.h>

#include <cmath>
#include <utility>

#include "trainer/metrics/classes_last.h"
#include "trainer/metrics/metric_sums.h"

namespace composer {
namespace {

// What is summed and divided by: targets, or the means of batches.
enum class Over { kTargets, kBatches };

class CrossEntropyMetric final : public SummedMetric {
 public:
  CrossEntropyMetric(const char* name, int64_t ignore_index, Over over = Over::kTargets, bool perplexity = false,
                     TokenLosses losses = {}, std::shared_ptr<const KnownLoss> known = nullptr)
      : SummedMetric(name),
        ignore_index_(ignore_index),
        over_(over),
        perplexity_(perplexity),
        losses_(std::move(losses)),
        known_(std::move(known)) {}

  double Compute() const override { return perplexity_ ? std::exp(sums_.Ratio()) : sums_.Ratio(); }

  void Update(const Outputs& outputs, const Batch& batch) override {
    if (batch.targets.numel() == 0) return;
    const at::NoGradGuard no_grad;
    if (AddKnown(outputs, batch.targets)) return;
    const bool dense = batch.targets.is_floating_point();
    const at::Tensor logits = dense || losses_ ? outputs.tensor() : ClassesLast(outputs, batch.targets);
    const auto [total, count] = dense ? Dense(logits, batch.targets) : Indices(logits, batch.targets);
    if (over_ == Over::kTargets) {
      sums_.AddTensor(torch::stack({total, count}));
    } else {
      sums_.AddTensor(torch::stack({total / count, torch::ones_like(total)}));
    }
  }

 private:
  using Sums = std::pair<at::Tensor, at::Tensor>;

  // Without targets that count the mean is NaN, and adds nothing.
  bool AddKnown(const at::Tensor& outputs, const at::Tensor& targets) {
    const at::Tensor mean = known_ == nullptr ? at::Tensor() : known_->Of(outputs, targets);
    if (!mean.defined()) return false;
    const at::Tensor count = (targets != ignore_index_).sum().to(torch::kDouble);
    sums_.AddTensor(torch::stack({torch::where(count > 0, mean.to(torch::kDouble) * count, 0.0), count}));
    return true;
  }

  Sums Indices(const at::Tensor& outputs, const at::Tensor& targets) const {
    const at::Tensor count = (targets != ignore_index_).sum().to(torch::kDouble);
    if (losses_) return {losses_(outputs, targets).sum(torch::kDouble), count};
    const at::Tensor logits = outputs.flatten(0, -2).to(torch::kFloat);
    const at::Tensor losses = at::cross_entropy_loss(logits, targets.flatten(), {}, at::Reduction::None, ignore_index_);
    return {losses.sum(torch::kDouble), count};
  }

  // The exact mean counts every sample 1. The mean over batches divides by the mass of the targets, as the loss does.
  Sums Dense(const at::Tensor& outputs, const at::Tensor& targets) const {
    const at::Tensor losses = -(targets * at::log_softmax(outputs.to(torch::kFloat), 1)).sum(1);
    const at::Tensor total = losses.sum(torch::kDouble);
    if (over_ == Over::kBatches) return {total, targets.sum(torch::kDouble)};
    return {total, torch::full_like(total, static_cast<double>(losses.numel()))};
  }

  int64_t ignore_index_;
  Over over_;
  bool perplexity_;
  TokenLosses losses_;
  std::shared_ptr<const KnownLoss> known_;
};

}  // namespace

std::unique_ptr<Metric> MakeCrossEntropy(bool batch_mean, int64_t ignore_index) {
  return std::make_unique<CrossEntropyMetric>("CrossEntropy", ignore_index,
                                              batch_mean ? Over::kBatches : Over::kTargets);
}

std::unique_ptr<Metric> MakeLanguageCrossEntropy(int64_t ignore_index, TokenLosses losses,
                                                 std::shared_ptr<const KnownLoss> known) {
  return std::make_unique<CrossEntropyMetric>("LanguageCrossEntropy", ignore_index, Over::kTargets,
                                              /*perplexity=*/false, std::move(losses), std::move(known));
}

std::unique_ptr<Metric> MakeLanguagePerplexity(int64_t ignore_index, TokenLosses losses) {
  return std::make_unique<CrossEntropyMetric>("LanguagePerplexity", ignore_index, Over::kTargets,
                                              /*perplexity=*/true, std::move(losses));
}

}  // namespace composer
