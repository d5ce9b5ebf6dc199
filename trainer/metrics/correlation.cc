// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/correlation.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "trainer/metrics/class_counts.h"
#include "trainer/metrics/metric_sums.h"

namespace composer {
namespace {

class Matthews final : public CountedMetric {
 public:
  using CountedMetric::CountedMetric;

 private:
  double FromCounts(absl::Span<const ClassCount> counts) const override {
    double samples = 0, right = 0, together = 0, predicted = 0, actual = 0;
    for (const ClassCount& count : counts) {
      samples += count.actual;
      right += count.right;
      together += count.predicted * count.actual;
      predicted += count.predicted * count.predicted;
      actual += count.actual * count.actual;
    }
    if (right == samples) return 1;
    const double denominator = (samples * samples - predicted) * (samples * samples - actual);
    return denominator <= 0 ? 0 : (right * samples - together) / std::sqrt(denominator);
  }
};

// Returns outputs and targets as double [B] on the host.
std::array<at::Tensor, 2> Pairs(const char* metric, const at::Tensor& outputs, const at::Tensor& targets) {
  const auto flat = [](const at::Tensor& x) { return x.detach().to(at::kCPU, at::kDouble).reshape({-1}).contiguous(); };
  TORCH_CHECK_VALUE(outputs.dim() >= 1 && outputs.numel() == outputs.size(0) && targets.numel() == outputs.numel(),
                    metric, ": outputs and targets must be [B] or [B, 1], got ", outputs.sizes(), " and ",
                    targets.sizes());
  return {flat(outputs), flat(targets)};
}

// Of the means of x, y, x², y² and x y over n.
double PearsonOf(double n, double x, double y, double xx, double yy, double xy) {
  const double varying = (n * xx - x * x) * (n * yy - y * y);
  return varying <= 0 ? std::numeric_limits<double>::quiet_NaN() : (n * xy - x * y) / std::sqrt(varying);
}

class Pearson final : public SummedMetric {
 public:
  Pearson() : SummedMetric("PearsonCorrCoef", 6) {}
  void Update(const Outputs& outputs, const Batch& batch) override {
    const auto [x, y] = Pairs("PearsonCorrCoef", outputs, batch.targets);
    sums_.AddTensor(at::stack(
        {at::full({}, x.numel(), x.options()), x.sum(), y.sum(), x.square().sum(), y.square().sum(), (x * y).sum()}));
  }
  double Compute() const override {
    const absl::Span<double> s = const_cast<MetricSums&>(sums_).Get();
    return PearsonOf(s[0], s[1], s[2], s[3], s[4], s[5]);
  }
};

// The rank of each value, from 1; equal values share the mean of theirs.
std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end + 1) / 2;
    begin = end;
  }
  return ranks;
}

class Spearman final : public Metric {
 public:
  std::string name() const override { return "SpearmanCorrCoef"; }
  absl::Span<double> sums() override { return {}; }
  absl::Span<std::vector<double>> lists() override { return absl::MakeSpan(values_); }

  void Update(const Outputs& outputs, const Batch& batch) override {
    const auto pairs = Pairs("SpearmanCorrCoef", outputs, batch.targets);
    for (size_t i = 0; i < 2; ++i) {
      const auto* data = pairs[i].data_ptr<double>();
      values_[i].insert(values_[i].end(), data, data + pairs[i].numel());
    }
  }
  double Compute() const override {
    const std::vector<double> x = RanksOf(values_[0]), y = RanksOf(values_[1]);
    double sum_x = 0, sum_y = 0, xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      sum_x += x[i];
      sum_y += y[i];
      xx += x[i] * x[i];
      yy += y[i] * y[i];
      xy += x[i] * y[i];
    }
    return PearsonOf(static_cast<double>(x.size()), sum_x, sum_y, xx, yy, xy);
  }

 private:
  std::array<std::vector<double>, 2> values_;  // outputs, targets
};

}  // namespace

std::unique_ptr<Metric> MakeBinaryMatthewsCorrCoef(std::optional<int64_t> ignore_index) {
  return std::make_unique<Matthews>("BinaryMatthewsCorrCoef", 2, ignore_index);
}
std::unique_ptr<Metric> MakeMulticlassMatthewsCorrCoef(int64_t num_classes, std::optional<int64_t> ignore_index) {
  return std::make_unique<Matthews>("MulticlassMatthewsCorrCoef", num_classes, ignore_index);
}
std::unique_ptr<Metric> MakePearsonCorrCoef() { return std::make_unique<Pearson>(); }
std::unique_ptr<Metric> MakeSpearmanCorrCoef() { return std::make_unique<Spearman>(); }

}  // namespace composer
