// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/rotary.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "trainer/layers/fused_layers.h"

namespace composer {
namespace {

constexpr double kPi = 3.14159265358979323846;

double Llama3(double frequency, const RopeOptions& options) {
  const auto context = static_cast<double>(options.original_context);
  const double wave = 2 * kPi / frequency;
  if (wave > context / options.low_freq_factor) return frequency / options.factor;
  if (wave < context / options.high_freq_factor) return frequency;
  const double smooth =
      (context / wave - options.low_freq_factor) / (options.high_freq_factor - options.low_freq_factor);
  return (1 - smooth) * frequency / options.factor + smooth * frequency;
}

// The dimension whose wave turns that often in the original context.
double DimensionOf(double turns, double width, const RopeOptions& options) {
  return width * std::log(static_cast<double>(options.original_context) / (turns * 2 * kPi)) /
         (2 * std::log(options.theta));
}

double Yarn(double frequency, double index, double width, const RopeOptions& options) {
  double low = DimensionOf(options.beta_fast, width, options), high = DimensionOf(options.beta_slow, width, options);
  if (options.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high) high += 0.001;
  const double stretched = std::clamp((index - low) / (high - low), 0.0, 1.0);
  return frequency / options.factor * stretched + frequency * (1 - stretched);
}

double YarnScaling(const RopeOptions& options) {
  const auto of = [&](double mscale) {
    return options.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(options.factor) + 1.0;
  };
  if (options.attention_factor) return *options.attention_factor;
  if (options.mscale.value_or(0) != 0 && options.mscale_all_dim.value_or(0) != 0)
    return of(*options.mscale) / of(*options.mscale_all_dim);
  return of(1);
}

double LongScaling(const RopeOptions& options) {
  if (options.attention_factor) return *options.attention_factor;
  if (options.factor <= 1) return 1;
  return std::sqrt(1 + std::log(options.factor) / std::log(static_cast<double>(options.original_context)));
}

bool DependsOnLength(RopeKind kind) { return kind == RopeKind::kDynamic || kind == RopeKind::kLongRope; }

double DynamicTheta(double width, int64_t tokens, const RopeOptions& options) {
  const double stretch =
      options.factor * static_cast<double>(tokens) / static_cast<double>(options.original_context) - options.factor + 1;
  return options.theta * std::pow(stretch, width / (width - 2));
}

}  // namespace

Rotary::Rotary(int64_t head_width, const RopeOptions& options)
    : head_width_(head_width), options_(options), frequencies_(Frequencies(0)) {
  if (options.kind == RopeKind::kYarn) scaling_ = YarnScaling(options);
  if (options.kind == RopeKind::kLongRope) scaling_ = LongScaling(options);
}

std::vector<float> Rotary::Frequencies(int64_t tokens) const {
  const auto width = static_cast<double>(head_width_);
  const bool is_long = tokens > options_.original_context;
  const double theta =
      options_.kind == RopeKind::kDynamic && is_long ? DynamicTheta(width, tokens, options_) : options_.theta;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < head_width_ / 2; ++i) {
    const auto index = static_cast<double>(i);
    double frequency = 1 / std::pow(theta, 2 * index / width);
    if (options_.kind == RopeKind::kLinear) frequency /= options_.factor;
    if (options_.kind == RopeKind::kLlama3) frequency = Llama3(frequency, options_);
    if (options_.kind == RopeKind::kYarn) frequency = Yarn(frequency, index, width, options_);
    if (options_.kind == RopeKind::kLongRope)
      frequency /= (is_long ? options_.long_factor : options_.short_factor).at(static_cast<size_t>(i));
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

std::vector<at::Tensor> Rotary::Tables(const at::Tensor& x, const at::Tensor& places) const {
  const auto options = x.options().dtype(at::kFloat);
  std::vector<float> of_length;
  if (DependsOnLength(options_.kind))
    of_length = Frequencies(places.defined() ? places.max().item<int64_t>() + 1 : x.size(1));
  // A trace of the model sees it as a constant.
  const at::Tensor frequencies = torch::tensor(of_length.empty() ? frequencies_ : of_length);
  const at::Tensor at_places =
      places.defined() ? places.to(at::kFloat).view({-1, 1, 1, 1}) : at::arange(x.size(1), options).view({1, 1, -1, 1});
  const at::Tensor half = at_places * frequencies.to(x.device());
  const at::Tensor angles = at::cat({half, half}, -1);
  return {(angles.cos() * scaling_).to(x.scalar_type()), (angles.sin() * scaling_).to(x.scalar_type())};
}

at::Tensor Rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  if (kernels::TakesRotation(x, cos)) return kernels::RotateWithGradient(x, cos, sin);
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return x * cos + at::cat({-halves[1], halves[0]}, -1) * sin;
}

}  // namespace composer
