// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/norms/gradient_norm.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "trainer/parallel/norms/power_sum.h"

namespace composer {
namespace {

// With `sharding`, returns only gradients that count in a sum over its ranks.
std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& params, const ModelSharding* sharding = nullptr) {
  std::vector<at::Tensor> grads;
  for (const at::Tensor& param : params) {
    if (!param.grad().defined() || param.grad().numel() == 0) continue;
    if (sharding == nullptr || sharding->Counts(param)) grads.push_back(param.grad());
  }
  return grads;
}

// Returns the maximum over shards by means of a sum: each shard writes into a place of its own.
double LargestOverShards(double own, ModelSharding& sharding) {
  const at::Tensor all = torch::zeros({sharding.num_shards()}, torch::dtype(at::kDouble).device(sharding.device()));
  all[sharding.shard_index()] = own;
  sharding.SumOverShards(all);
  return all.max().item<double>();
}

double SumOverShards(double own, ModelSharding& sharding) {
  const at::Tensor sum = torch::full({1}, own, torch::dtype(at::kDouble).device(sharding.device()));
  sharding.SumOverShards(sum);
  return sum.item<double>();
}

// In host memory the sum is exact, so it has the same bits on any number of shards.
double SumOverShards(ExactSum& own, ModelSharding& sharding) {
  const at::Tensor words = torch::zeros({ExactSum::kWords}, at::kLong);
  const absl::Span<const int64_t> from = own.words();
  auto* data = static_cast<int64_t*>(words.mutable_data_ptr());
  std::copy(from.begin(), from.end(), data);
  sharding.SumOverShards(words);
  ExactSum sum;
  sum.Set({data, ExactSum::kWords});
  return sum.Total();
}

double PowerSum(const std::vector<at::Tensor>& grads, ModelSharding* sharding, double p) {
  const bool on_host = std::all_of(grads.begin(), grads.end(), [](const at::Tensor& grad) { return grad.is_cpu(); });
  if (on_host && (sharding == nullptr || sharding->device().is_cpu())) {
    ExactSum sum;
    for (const at::Tensor& grad : grads) AddPowers(grad, p, sum);
    return sharding == nullptr ? sum.Total() : SumOverShards(sum, *sharding);
  }
  double sum = 0;
  if (!grads.empty()) {
    const at::Tensor norms = torch::stack(at::_foreach_norm(grads, p)).to(at::kCPU, at::kDouble);
    sum = norms.pow(p).sum().item<double>();
  }
  return sharding == nullptr ? sum : SumOverShards(sum, *sharding);
}

}  // namespace

double GradientNorm(const std::vector<at::Tensor>& params, ModelSharding* sharding, double p) {
  TORCH_CHECK_VALUE(p >= 1, "norm type: ", p, ", allowed are numbers of at least 1 and infinity");
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> grads = GradientsOf(params, sharding);
  if (!std::isinf(p)) return std::pow(PowerSum(grads, sharding, p), 1 / p);
  double largest = 0;
  if (!grads.empty()) largest = torch::stack(at::_foreach_norm(grads, p)).max().item<double>();
  return sharding == nullptr ? largest : LargestOverShards(largest, *sharding);
}

double ClipGradientsByNorm(const std::vector<at::Tensor>& params, double max_norm, ModelSharding* sharding, double p) {
  const double norm = GradientNorm(params, sharding, p);
  const double factor = max_norm / (norm + 1e-6);
  const std::vector<at::Tensor> grads = GradientsOf(params);
  const torch::NoGradGuard no_grad;
  if (!grads.empty() && !(factor >= 1)) at::_foreach_mul_(grads, factor);
  return norm;
}

bool ClipGradientsOnDevice(const std::vector<at::Tensor>& params, double max_norm, ModelSharding* sharding) {
  const bool on_host = params.empty() || params[0].is_cpu() || (sharding != nullptr && sharding->device().is_cpu());
  if (on_host) return false;
  const torch::NoGradGuard no_grad;
  at::Tensor sum = torch::zeros({1}, torch::dtype(at::kDouble).device(params[0].device()));
  const std::vector<at::Tensor> counted = GradientsOf(params, sharding);
  if (!counted.empty()) sum += torch::stack(at::_foreach_norm(counted, 2)).to(at::kDouble).square().sum();
  if (sharding != nullptr) sharding->SumOverShards(sum);
  const std::vector<at::Tensor> grads = GradientsOf(params);
  // NaN stays, as it does where the host divides.
  const at::Tensor factor = (max_norm / (sum.sqrt() + 1e-6)).clamp_max(1).to(at::kFloat).squeeze();
  if (!grads.empty()) at::_foreach_mul_(grads, factor);
  return true;
}

void ClipGradientsByValue(const std::vector<at::Tensor>& params, double limit) {
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> grads = GradientsOf(params);
  if (grads.empty()) return;
  at::_foreach_clamp_min_(grads, -limit);
  at::_foreach_clamp_max_(grads, limit);
}

}  // namespace composer
