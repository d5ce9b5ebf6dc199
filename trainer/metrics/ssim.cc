// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/ssim.h"

#include <torch/types.h>

#include "trainer/metrics/metric_sums.h"

namespace composer {
namespace {

constexpr int64_t kWindow = 11, kPad = kWindow / 2;
constexpr double kSigma = 1.5;

at::Tensor Gaussian(const at::TensorOptions& options) {
  const at::Tensor places = torch::arange(kWindow, options) - static_cast<double>(kPad);
  const at::Tensor weights = torch::exp(-(places / kSigma).square() / 2);
  return weights / weights.sum();
}

// Returns the means under the window around each place of [N, H, W].
at::Tensor WindowMeans(const at::Tensor& planes, const at::Tensor& gaussian) {
  const at::Tensor around = at::reflection_pad2d(planes.unsqueeze(1), {kPad, kPad, kPad, kPad});
  const at::Tensor rows = at::conv2d(around, gaussian.view({1, 1, 1, kWindow}));
  return at::conv2d(rows, gaussian.view({1, 1, kWindow, 1})).squeeze(1);
}

class Ssim final : public SummedMetric {
 public:
  explicit Ssim(double data_range) : SummedMetric("SSIM"), range_(data_range) {}

  void Update(const Outputs& outputs, const Batch& batch) override {
    const at::NoGradGuard no_grad;
    const at::Tensor& pictures = outputs.tensor();
    const at::Tensor& wanted = outputs.Has("target") ? outputs["target"] : batch.targets;
    TORCH_CHECK_VALUE(wanted.defined() && pictures.dim() == 4 && pictures.sizes() == wanted.sizes() &&
                          pictures.size(2) > kPad && pictures.size(3) > kPad,
                      "SSIM: outputs ", pictures.sizes(), " and targets ",
                      wanted.defined() ? wanted.sizes() : at::IntArrayRef(),
                      " must be pictures [B, C, H, W] of at least ", kPad + 1, " x ", kPad + 1);
    if (pictures.size(0) == 0) return;
    const at::Tensor values = OfEach(pictures.to(torch::kFloat), wanted.to(torch::kFloat)).to(torch::kDouble);
    const at::Tensor sum = values.sum();
    sums_.AddTensor(torch::stack({sum, torch::full_like(sum, static_cast<double>(values.numel()))}));
  }

 private:
  // Returns [B].
  at::Tensor OfEach(const at::Tensor& pictures, const at::Tensor& wanted) const {
    const double c1 = 0.01 * range_ * 0.01 * range_, c2 = 0.03 * range_ * 0.03 * range_;
    const at::Tensor gaussian = Gaussian(pictures.options());
    const at::Tensor x = pictures.flatten(0, 1), y = wanted.flatten(0, 1);
    const at::Tensor mx = WindowMeans(x, gaussian), my = WindowMeans(y, gaussian);
    const at::Tensor vx = (WindowMeans(x * x, gaussian) - mx * mx).clamp_min(0);
    const at::Tensor vy = (WindowMeans(y * y, gaussian) - my * my).clamp_min(0);
    const at::Tensor vxy = WindowMeans(x * y, gaussian) - mx * my;
    const at::Tensor map = (2 * mx * my + c1) * (2 * vxy + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2));
    return map.reshape({pictures.size(0), -1}).mean(1);
  }

  const double range_;
};

}  // namespace

std::unique_ptr<Metric> MakeSsim(double data_range) { return std::make_unique<Ssim>(data_range); }

}  // namespace composer
