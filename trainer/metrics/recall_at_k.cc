// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/recall_at_k.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace composer {
namespace {

void Append(const at::Tensor& rows, std::vector<double>& list) {
  const at::Tensor values = rows.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* data = values.data_ptr<double>();
  list.insert(list.end(), data, data + values.numel());
}

at::Tensor AsRows(const std::vector<double>& list, int64_t rows) {
  return at::from_blob(const_cast<double*>(list.data()), {rows, static_cast<int64_t>(list.size()) / rows}, at::kDouble);
}

class RecallAtK final : public Metric {
 public:
  explicit RecallAtK(int64_t k) : k_(k) {}
  std::string name() const override { return "RecallAt" + std::to_string(k_); }
  absl::Span<double> sums() override { return {}; }
  absl::Span<std::vector<double>> lists() override { return absl::MakeSpan(lists_); }

  void Update(const Outputs& outputs, const Batch& /*batch*/) override {
    const at::Tensor &texts = outputs["outputs"], &positives = outputs["positives"];
    TORCH_CHECK_VALUE(texts.dim() == 2 && texts.sizes() == positives.sizes(), name(),
                      ": outputs and positives must be [B, width], got ", texts.sizes(), " and ", positives.sizes());
    Append(texts, texts_);
    Append(positives, positives_);
    samples_.insert(samples_.end(), static_cast<size_t>(texts.size(0)), 1.0);
  }

  double Compute() const override {
    constexpr int64_t kRowsAtATime = 256;
    const auto samples = static_cast<int64_t>(samples_.size());
    if (samples == 0) return NAN;
    const at::Tensor texts = AsRows(texts_, samples), positives = AsRows(positives_, samples);
    int64_t found = 0;
    for (int64_t begin = 0; begin < samples; begin += kRowsAtATime) {
      const int64_t rows = std::min(kRowsAtATime, samples - begin);
      const at::Tensor scores = texts.narrow(0, begin, rows).matmul(positives.t());
      const at::Tensor own = scores.diagonal(begin).unsqueeze(1);
      found += scores.gt(own).sum(1).lt(k_).sum().item<int64_t>();
    }
    return static_cast<double>(found) / static_cast<double>(samples);
  }

 private:
  const int64_t k_;
  std::array<std::vector<double>, 3> lists_;
  std::vector<double>&texts_ = lists_[0], &positives_ = lists_[1], &samples_ = lists_[2];
};

}  // namespace

std::unique_ptr<Metric> MakeRecallAtK(int64_t k) { return std::make_unique<RecallAtK>(k); }

}  // namespace composer
