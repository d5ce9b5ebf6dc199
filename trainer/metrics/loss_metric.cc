// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/loss_metric.h"

#include <torch/types.h>

#include <utility>

#include "trainer/metrics/metric_sums.h"

namespace composer {
namespace {

class LossMetric final : public SummedMetric {
 public:
  LossMetric(LossFunction loss, bool batch_mean)
      : SummedMetric("LossMetric"), loss_(std::move(loss)), batch_mean_(batch_mean) {}

  void Update(const Outputs& outputs, const Batch& batch) override {
    if (batch.targets.numel() == 0) return;
    const at::NoGradGuard no_grad;
    const at::Tensor loss = loss_(outputs, batch.targets).to(torch::kDouble);
    TORCH_CHECK_VALUE(loss.dim() == 0, "LossMetric: the loss must be a scalar, it has shape ", loss.sizes());
    const double weight = batch_mean_ ? 1 : static_cast<double>(batch.targets.size(0));
    sums_.AddTensor(torch::stack({loss * weight, torch::full_like(loss, weight)}));
  }

 private:
  LossFunction loss_;
  bool batch_mean_;
};

}  // namespace

std::unique_ptr<Metric> MakeLossMetric(LossFunction loss, bool batch_mean) {
  return std::make_unique<LossMetric>(std::move(loss), batch_mean);
}

}  // namespace composer
