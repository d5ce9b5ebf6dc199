// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/class_counts.h"

#include <torch/types.h>

#include <vector>

namespace composer {

at::Tensor CountClasses(const std::string& metric, const at::Tensor& outputs, const at::Tensor& targets,
                        std::optional<int64_t> ignore_index) {
  const at::Tensor indices = targets.dim() == outputs.dim() ? targets.argmax(1) : targets;
  TORCH_CHECK_VALUE(
      outputs.dim() >= 2 && indices.size(0) == outputs.size(0) && indices.sizes().slice(1) == outputs.sizes().slice(2),
      metric, ": outputs ", outputs.sizes(), " [B, C, *] do not fit targets ", targets.sizes());
  // Everything that does not count goes into one more class, `none`. Rows are samples, so that a GPU's additions to one
  // class do not all hit the same address.
  const int64_t samples = outputs.size(0), none = outputs.size(1);
  at::Tensor predicted = outputs.argmax(1).view({samples, -1});
  at::Tensor actual = indices.to(torch::kInt64).reshape({samples, -1});
  at::Tensor known = (actual >= 0) & (actual < none);
  if (ignore_index.has_value()) {
    const at::Tensor counted = actual != *ignore_index;
    predicted = torch::where(counted, predicted, none);
    known = known & counted;
  }
  actual = torch::where(known, actual, none);
  const at::Tensor right = torch::where(predicted == actual, actual, none);
  const at::Tensor bins = torch::cat({right, predicted + (none + 1), actual + 2 * (none + 1)}, 1);
  const at::Tensor counts = torch::zeros({samples, 3 * (none + 1)}, bins.options());
  counts.scatter_add_(1, bins, torch::ones_like(bins));
  return counts.sum(0).view({3, none + 1}).slice(1, 0, none);
}

void CountedMetric::Update(const Outputs& outputs, const Batch& batch) {
  if (batch.targets.numel() == 0) return;
  TORCH_CHECK_VALUE(outputs->dim() >= 2 && outputs->size(1) == num_classes_, name(), ": num_classes is ", num_classes_,
                    ", but the outputs are ", outputs->sizes(), " [B, C, *]");
  sums_.AddTensor(CountClasses(name(), outputs, batch.targets, ignore_index_).flatten());
}

double CountedMetric::Compute() const {
  MetricSums all = sums_;
  const absl::Span<const double> sums = all.Get();
  std::vector<ClassCount> counts(static_cast<size_t>(num_classes_));
  const size_t n = counts.size();
  bool any = false;
  for (size_t i = 0; i < n; ++i) {
    counts[i] = {sums[i], sums[n + i], sums[2 * n + i]};
    any = any || counts[i].predicted > 0 || counts[i].actual > 0;
  }
  return any ? FromCounts(counts) : OfNothing();
}

}  // namespace composer
