// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/optimisation/selective_backprop.h"

#include <torch/enum.h>
#include <torch/nn/functional/upsampling.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/model_sharding.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

at::Tensor Smaller(const at::Tensor& inputs, double scale_factor) {
  namespace F = torch::nn::functional;
  for (int64_t dim = 2; dim < inputs.dim(); ++dim) {
    TORCH_CHECK_VALUE(static_cast<double>(inputs.size(dim)) * scale_factor >= 1, "selective_backprop: scale_factor ",
                      scale_factor, " leaves nothing of inputs ", inputs.sizes());
  }
  auto options =
      F::InterpolateFuncOptions()
          .scale_factor(std::vector<double>(static_cast<size_t>(std::max<int64_t>(1, inputs.dim() - 2)), scale_factor))
          .recompute_scale_factor(false)
          .align_corners(false);
  switch (inputs.dim()) {
    case 3:
      return F::interpolate(inputs, options.mode(torch::kLinear));
    case 4:
      return F::interpolate(inputs, options.mode(torch::kBilinear));
    case 5:
      return F::interpolate(inputs, options.mode(torch::kTrilinear));
    default:
      TORCH_CHECK_VALUE(false,
                        "selective_backprop: scale_factor makes inputs with 3 to 5 dimensions smaller, they have ",
                        inputs.dim());
  }
}

at::Tensor SampleLosses(Model& model, const at::Tensor& outputs, const Batch& batch) {
  try {
    return model.sample_losses(outputs, batch);
  } catch (const c10::NotImplementedError& error) {
    TORCH_CHECK_VALUE(false, "selective_backprop: ", error.what_without_backtrace());
  }
}

std::vector<double> UniformDraws(int64_t count) {
  const at::Tensor draws = torch::rand({count}, torch::dtype(at::kDouble));
  const auto* data = static_cast<const double*>(draws.const_data_ptr());
  return {data, data + count};
}

}  // namespace

absl::Status Validate(const SelectiveBackpropOptions& options) {
  const auto refuse = [](absl::string_view field, auto value, absl::string_view range) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", it must be ", range));
  };
  if (!(options.start >= 0 && options.start <= 1)) return refuse("start", options.start, "between 0 and 1");
  if (!(options.end >= options.start && options.end <= 1)) return refuse("end", options.end, "between start and 1");
  if (!(options.keep > 0 && options.keep <= 1)) return refuse("keep", options.keep, "above 0 and at most 1");
  if (!(options.scale_factor > 0 && options.scale_factor <= 1))
    return refuse("scale_factor", options.scale_factor, "above 0 and at most 1");
  if (options.interrupt < 0) return refuse("interrupt", options.interrupt, "at least 0");
  return absl::OkStatus();
}

bool IsPruned(const SelectiveBackpropOptions& options, double elapsed, int64_t batch_in_epoch) {
  const bool is_interval = elapsed >= options.start && elapsed < options.end;
  return is_interval && (options.interrupt == 0 || (batch_in_epoch + 1) % options.interrupt != 0);
}

std::vector<int64_t> SelectByLoss(const std::vector<double>& losses, double keep,
                                  const std::function<std::vector<double>(int64_t)>& uniform) {
  const size_t size = losses.size();
  const auto wanted = static_cast<size_t>(keep * static_cast<double>(size));
  std::vector<size_t> sorted(size);
  std::iota(sorted.begin(), sorted.end(), size_t{0});
  std::stable_sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) { return losses[a] < losses[b]; });
  std::vector<double> weights(size);
  for (size_t k = 0; k < size; ++k)
    weights[k] = std::pow((static_cast<double>(k) + 0.5) / static_cast<double>(size), 1 / keep - 1);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= total;

  std::vector<int64_t> selected;
  absl::flat_hash_set<size_t> found;
  while (selected.size() < wanted) {
    std::vector<double> cdf(size);
    std::partial_sum(weights.begin(), weights.end(), cdf.begin());
    const double last = cdf.back();
    for (double& value : cdf) value /= last;
    for (const double draw : uniform(static_cast<int64_t>(wanted - selected.size()))) {
      const auto place = static_cast<size_t>(std::upper_bound(cdf.begin(), cdf.end(), draw) - cdf.begin());
      const size_t k = std::min(place, size - 1);
      if (found.insert(k).second) selected.push_back(static_cast<int64_t>(sorted[k]));
    }
    for (const size_t k : found) weights[k] = 0;
  }
  return selected;
}

bool SelectiveBackprop::Match(Event /*event*/, const State& state) const {
  return IsPruned(options_, ElapsedFraction(state.timestamp, state.max_duration), state.timestamp.batch_in_epoch);
}

at::Tensor SelectiveBackprop::Losses(State& state) const {
  const torch::NoGradGuard no_grad;
  Batch batch = state.batch;
  if (batch.num_samples == 0) {
    if (state.sharding != nullptr) state.sharding->SkipForward();
    return torch::zeros({0});
  }
  if (options_.scale_factor < 1) batch.inputs = Smaller(batch.inputs, options_.scale_factor);
  WholeModelScope whole(state.sharding);
  const at::Tensor outputs = state.model->forward(batch);
  const at::Tensor losses = SampleLosses(*state.model, outputs, batch).to(at::kCPU, at::kDouble).contiguous();
  whole.End();
  TORCH_CHECK_VALUE(losses.dim() == 1 && losses.size(0) == batch.num_samples, "selective_backprop: ", batch.num_samples,
                    " samples have losses of shape ", losses.sizes());
  return losses;
}

absl::Status SelectiveBackprop::Apply(Event /*event*/, State& state, Logger& /*logger*/) {
  const at::Tensor losses = Losses(state);
  const auto* data = static_cast<const double*>(losses.const_data_ptr());
  const std::vector<int64_t> rows = SelectByLoss({data, data + losses.numel()}, options_.keep, UniformDraws);
  state.batch = state.batch.Select(rows);
  return absl::OkStatus();
}

}  // namespace composer
