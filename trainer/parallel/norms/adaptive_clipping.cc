// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/norms/adaptive_clipping.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "trainer/parallel/norms/row_squares.h"

namespace composer {
namespace {

constexpr double kSmallestNorm = 1e-3;

void Scale(const at::Tensor& grad, RowSquares& param, double threshold) {
  std::vector<float> factors;
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < param.squares[0].size(); ++i) {
    const double weight = std::max(kSmallestNorm, std::sqrt(param.squares[0][i].Total()));
    const double gradient = std::sqrt(param.squares[1][i].Total());
    const double factor = threshold * weight / std::max(kSmallestNorm, gradient);
    factors.push_back(static_cast<float>(std::isnan(gradient) ? 1 : std::min(1.0, factor)));
    const auto [begin, end] = param.rows.At(static_cast<int64_t>(i));
    lengths.push_back(end - begin);
  }
  if (std::all_of(factors.begin(), factors.end(), [](float factor) { return factor == 1; })) return;
  const at::Tensor by_element =
      at::repeat_interleave(torch::tensor(factors), torch::tensor(lengths, torch::dtype(at::kLong)));
  grad.mul_(by_element.to(grad.device()).reshape(grad.sizes()));
}

}  // namespace

void ClipGradientsAdaptively(const std::vector<at::Tensor>& params, double threshold, ModelSharding* sharding) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> clipped;
  std::vector<RowSquares> squares;
  for (const at::Tensor& param : params) {
    if (!param.grad().defined()) continue;
    clipped.push_back(param);
    squares.push_back(SquaresByRow(param, sharding));
  }
  if (sharding != nullptr) SumCutRows(clipped, squares, *sharding);
  for (size_t i = 0; i < clipped.size(); ++i) Scale(clipped[i].grad(), squares[i], threshold);
}

}  // namespace composer
