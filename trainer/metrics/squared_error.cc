// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/squared_error.h"

#include <torch/types.h>

#include "trainer/metrics/metric_sums.h"

namespace composer {
namespace {

class TargetSquaredError final : public SummedMetric {
 public:
  TargetSquaredError() : SummedMetric("MeanSquaredError") {}
  void Update(const Outputs& outputs, const Batch& /*batch*/) override {
    const at::Tensor errors = outputs["outputs"].detach().to(at::kFloat) - outputs["target"].to(at::kFloat);
    const at::Tensor sum = errors.square().sum().to(at::kDouble);
    sums_.AddTensor(torch::stack({sum, torch::full_like(sum, static_cast<double>(errors.numel()))}));
  }
};

}  // namespace

std::unique_ptr<Metric> MakeTargetSquaredError() { return std::make_unique<TargetSquaredError>(); }

}  // namespace composer
