// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/cross_entropy.h"

#include <torch/torch.h>

#include <cmath>
#include <string>
#include <utility>

#include "trainer/metrics/metric_sums.h"

namespace composer {
namespace {

constexpr int64_t kIgnored = -100;

class CrossEntropyMetric final : public Metric {
 public:
  CrossEntropyMetric(std::string name, bool perplexity) : name_(std::move(name)), perplexity_(perplexity) {}

  std::string name() const override { return name_; }
  absl::Span<double> sums() override { return sums_.Get(); }
  double Compute() const override { return perplexity_ ? std::exp(sums_.Ratio()) : sums_.Ratio(); }

  void Update(const at::Tensor& outputs, const Batch& batch) override {
    if (batch.targets.numel() == 0) return;
    const at::NoGradGuard no_grad;
    const at::Tensor logits = outputs.flatten(0, -2).to(torch::kFloat);
    if (batch.targets.is_floating_point()) {
      const at::Tensor losses = -(batch.targets.flatten(0, -2) * at::log_softmax(logits, -1)).sum(-1);
      sums_.AddTensor(torch::stack({losses.sum(torch::kDouble), torch::full_like(losses[0], losses.size(0))}));
      return;
    }
    const at::Tensor targets = batch.targets.flatten();
    const at::Tensor losses = at::cross_entropy_loss(logits, targets, {}, at::Reduction::None, kIgnored);
    sums_.AddTensor(torch::stack({losses.sum(torch::kDouble), (targets != kIgnored).sum().to(torch::kDouble)}));
  }

 private:
  std::string name_;
  bool perplexity_;
  MetricSums sums_;
};

}  // namespace

std::unique_ptr<Metric> MakeCrossEntropy() { return std::make_unique<CrossEntropyMetric>("CrossEntropy", false); }

std::unique_ptr<Metric> MakeLanguageCrossEntropy() {
  return std::make_unique<CrossEntropyMetric>("LanguageCrossEntropy", false);
}

std::unique_ptr<Metric> MakeLanguagePerplexity() {
  return std::make_unique<CrossEntropyMetric>("LanguagePerplexity", true);
}

}  // namespace composer
