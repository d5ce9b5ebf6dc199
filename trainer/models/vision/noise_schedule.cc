// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/noise_schedule.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "trainer/layers/undeferred_scope.h"

namespace composer {
namespace {

constexpr int64_t kMostSteps = 1000000;
constexpr double kLargestCosineBeta = 0.999;

at::Tensor SquaredCosineBetas(int64_t steps) {
  const auto alpha_bar = [](double t) { return std::pow(std::cos((t + 0.008) / 1.008 * M_PI / 2), 2); };
  std::vector<double> betas;
  for (int64_t i = 0; i < steps; ++i) {
    const double now = static_cast<double>(i) / static_cast<double>(steps);
    const double next = static_cast<double>(i + 1) / static_cast<double>(steps);
    betas.push_back(std::min(1 - alpha_bar(next) / alpha_bar(now), kLargestCosineBeta));
  }
  return torch::tensor(betas, torch::kFloat);
}

at::Tensor BetasOf(const NoiseScheduleOptions& o) {
  if (o.beta_schedule == BetaSchedule::kSquaredCosine) return SquaredCosineBetas(o.num_train_timesteps);
  if (o.beta_schedule == BetaSchedule::kLinear)
    return torch::linspace(o.beta_start, o.beta_end, o.num_train_timesteps, torch::kFloat);
  return torch::linspace(std::sqrt(o.beta_start), std::sqrt(o.beta_end), o.num_train_timesteps, torch::kFloat).square();
}

// Shifts and scales the roots of the products so that the first stays and the last is 0.
at::Tensor WithoutTerminalSignal(const at::Tensor& alphas_cumprod) {
  const at::Tensor roots = alphas_cumprod.sqrt(), first = roots[0], last = roots[-1];
  const at::Tensor products = ((roots - last) * (first / (first - last))).square();
  // Through the betas, as diffusers goes, for the same rounding.
  const at::Tensor alphas = torch::cat({products.slice(0, 0, 1), products.slice(0, 1) / products.slice(0, 0, -1)});
  return torch::cumprod(1 - (1 - alphas), 0);
}

void CheckNoiseOptions(const NoiseScheduleOptions& o) {
  TORCH_CHECK_VALUE(o.num_train_timesteps >= 1 && o.num_train_timesteps <= kMostSteps,
                    "model.num_train_timesteps: ", o.num_train_timesteps, " must be in 1 .. ", kMostSteps);
  TORCH_CHECK_VALUE(o.beta_start > 0 && o.beta_start < 1 && o.beta_end > 0 && o.beta_end < 1,
                    "model.beta_start and model.beta_end: ", o.beta_start, " and ", o.beta_end,
                    " must be between 0 and 1");
  TORCH_CHECK_VALUE(o.clip_sample_range > 0, "model.clip_sample_range: ", o.clip_sample_range, " must be above 0");
  TORCH_CHECK_VALUE(o.steps_offset >= 0 && o.steps_offset < o.num_train_timesteps,
                    "model.steps_offset: ", o.steps_offset, " must be in 0 .. num_train_timesteps - 1, ",
                    o.num_train_timesteps - 1);
  TORCH_CHECK_VALUE(!o.rescale_betas_zero_snr || o.num_train_timesteps > 1,
                    "model.rescale_betas_zero_snr: needs at least 2 num_train_timesteps");
  TORCH_CHECK_VALUE(!o.rescale_betas_zero_snr || o.prediction_type != PredictionType::kEpsilon,
                    "model.rescale_betas_zero_snr: the last step has no picture in it, which the prediction_type "
                    "epsilon would divide by 0 to find; use v_prediction or sample");
}

}  // namespace

NoiseSchedule::NoiseSchedule(const NoiseScheduleOptions& options) : options_(options) {
  CheckNoiseOptions(options);
  const UndeferredScope table;  // it is not a parameter
  const at::NoGradGuard no_grad;
  alphas_cumprod_ = torch::cumprod(1 - BetasOf(options), 0);
  if (options.rescale_betas_zero_snr) alphas_cumprod_ = WithoutTerminalSignal(alphas_cumprod_);
}

std::pair<at::Tensor, at::Tensor> NoiseSchedule::Factors(const at::Tensor& pictures, const at::Tensor& steps) const {
  TORCH_CHECK_VALUE(steps.dim() == 1 && steps.size(0) == pictures.size(0) && steps.scalar_type() == at::kLong,
                    "timesteps: there must be one int64 for each of the ", pictures.size(0), " samples, not ",
                    steps.scalar_type(), " ", steps.sizes());
  if (!on_device_.defined() || on_device_.device() != pictures.device())
    on_device_ = alphas_cumprod_.to(pictures.device());
  std::vector<int64_t> shape(static_cast<size_t>(pictures.dim()), 1);
  shape[0] = steps.size(0);
  const at::Tensor alphas = on_device_.to(pictures.scalar_type()).index_select(0, steps).view(shape);
  return {alphas.sqrt(), (1 - alphas).sqrt()};
}

at::Tensor NoiseSchedule::AddNoise(const at::Tensor& pictures, const at::Tensor& noise, const at::Tensor& steps) const {
  const auto [picture_part, noise_part] = Factors(pictures, steps);
  return picture_part * pictures + noise_part * noise;
}

at::Tensor NoiseSchedule::Target(const at::Tensor& pictures, const at::Tensor& noise, const at::Tensor& steps) const {
  if (options_.prediction_type == PredictionType::kEpsilon) return noise;
  if (options_.prediction_type == PredictionType::kSample) return pictures;
  const auto [picture_part, noise_part] = Factors(pictures, steps);
  return picture_part * noise - noise_part * pictures;
}

std::vector<int64_t> NoiseSchedule::SamplingSteps(int64_t count) const {
  const int64_t all = options_.num_train_timesteps;
  TORCH_CHECK_VALUE(count >= 1 && count <= all, "num_inference_steps: ", count,
                    " must be in 1 .. num_train_timesteps, ", all);
  std::vector<int64_t> steps;
  for (int64_t i = count - 1; i >= 0; --i) {
    const double share = static_cast<double>(all) / static_cast<double>(count);
    switch (options_.timestep_spacing) {
      case TimestepSpacing::kLeading:
        steps.push_back(i * (all / count) + options_.steps_offset);
        break;
      case TimestepSpacing::kTrailing:
        steps.push_back(std::lrint(static_cast<double>(all) - static_cast<double>(count - 1 - i) * share) - 1);
        break;
      case TimestepSpacing::kLinspace:
        steps.push_back(count == 1 ? 0
                                   : std::lrint(static_cast<double>(i * (all - 1)) / static_cast<double>(count - 1)));
        break;
    }
  }
  TORCH_CHECK_VALUE(steps.front() < all, "num_inference_steps: ", count, " with model.steps_offset ",
                    options_.steps_offset, " begin at step ", steps.front(), " of ", all, "; take fewer");
  return steps;
}

float NoiseSchedule::AlphaAt(int64_t step) const { return alphas_cumprod_.data_ptr<float>()[step]; }

NoiseSchedule::Meant NoiseSchedule::MeantBy(const at::Tensor& computed, float alpha, const at::Tensor& pictures) const {
  const float picture_part = std::sqrt(alpha), noise_part = std::sqrt(1 - alpha);
  Meant meant;
  switch (options_.prediction_type) {
    case PredictionType::kEpsilon:
      meant = {(pictures - noise_part * computed) / picture_part, computed};
      break;
    case PredictionType::kSample:
      meant = {computed, (pictures - picture_part * computed) / noise_part};
      break;
    case PredictionType::kVelocity:
      meant = {picture_part * pictures - noise_part * computed, picture_part * computed + noise_part * pictures};
      break;
  }
  if (options_.clip_sample)
    meant.picture = meant.picture.clamp(-options_.clip_sample_range, options_.clip_sample_range);
  return meant;
}

// Numbers are in float32, as in diffusers: 1 - a / a' has few digits left, and they should be the same ones.
at::Tensor NoiseSchedule::DdpmStep(const at::Tensor& computed, int64_t step, int64_t previous,
                                   const at::Tensor& pictures, const at::Tensor& noise) const {
  const float alpha = AlphaAt(step), before = previous >= 0 ? AlphaAt(previous) : 1.0F;
  const float ratio = alpha / before, beta = 1 - ratio;
  const at::Tensor picture = MeantBy(computed, alpha, pictures).picture;
  const float picture_part = std::sqrt(before) * beta / (1 - alpha);
  const float own_part = std::sqrt(ratio) * (1 - before) / (1 - alpha);
  const at::Tensor mean = picture_part * picture + own_part * pictures;
  if (step == 0) return mean;
  const float variance = std::max((1 - before) / (1 - alpha) * beta, 1e-20F);
  return mean + std::sqrt(variance) * noise;
}

at::Tensor NoiseSchedule::DdimStep(const at::Tensor& computed, int64_t step, int64_t count, const at::Tensor& pictures,
                                   double eta, const at::Tensor& noise) const {
  const int64_t previous = step - options_.num_train_timesteps / count;
  const float last = options_.set_alpha_to_one ? 1.0F : AlphaAt(0);
  const float alpha = AlphaAt(step), before = previous >= 0 ? AlphaAt(previous) : last;
  const Meant meant = MeantBy(computed, alpha, pictures);
  const float variance = (1 - before) / (1 - alpha) * (1 - alpha / before);
  const float deviation = static_cast<float>(eta) * std::sqrt(variance);
  const float direction = std::sqrt(std::max(1 - before - deviation * deviation, 0.0F));
  const at::Tensor mean = std::sqrt(before) * meant.picture + direction * meant.noise;
  return eta > 0 ? mean + deviation * noise : mean;
}

at::Tensor Guide(const at::Tensor& without, const at::Tensor& with, double scale) {
  return without + scale * (with - without);
}

}  // namespace composer
