// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/whitening_conv.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "trainer/core/model.h"
#include "trainer/core/state.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr int64_t kImagesAtOnce = 100;

// Returns the inputs of these samples as training has them in epoch 0.
at::Tensor InputsOf(const Loader& loader, const std::vector<int64_t>& ids, at::Device device) {
  const DataSpec& spec = loader.spec();
  Batch batch = spec.Prepare(loader.dataset().LoadIn(0, ids), device);
  if (spec.microbatch_transform) batch = spec.microbatch_transform(std::move(batch));
  return batch.inputs;
}

at::Tensor ImagesOf(const Loader& loader, int64_t samples, const WhiteningLayer& layer) {
  const int64_t size = loader.dataset().size(), count = std::min(samples, size);
  std::vector<at::Tensor> images;
  for (int64_t begin = 0; begin < count; begin += kImagesAtOnce) {
    std::vector<int64_t> ids;
    for (int64_t i = begin; i < std::min(begin + kImagesAtOnce, count); ++i) ids.push_back(i * size / count);
    const at::Tensor some = InputsOf(loader, ids, layer.weight().device());
    TORCH_CHECK_VALUE(some.dim() == 4 && some.size(1) == layer.weight().size(1) && some.is_floating_point(),
                      "whitening_conv: the data's inputs are ", some.scalar_type(), " ", some.sizes(),
                      ", it needs images [B, ", layer.weight().size(1), ", H, W] of numbers with a fraction",
                      some.is_floating_point() ? "" : "; add the transform to_float");
    images.push_back(some);
  }
  return at::cat(images);
}

}  // namespace

at::Tensor PatchCovariance(const at::Tensor& images, int64_t kernel_size) {
  const int64_t q = kernel_size;
  TORCH_CHECK_VALUE(images.dim() == 4 && images.size(0) > 0 && images.size(2) >= q && images.size(3) >= q,
                    "whitening_conv: it takes images [B, C, H, W] of at least ", q, " x ", q, ", they have shape ",
                    images.sizes());
  at::Tensor products =
      at::zeros({images.size(1) * q * q, images.size(1) * q * q}, images.options().dtype(at::kDouble));
  at::Tensor sums = at::zeros({products.size(0)}, products.options());
  int64_t patches = 0;
  for (const at::Tensor& some : images.split(kImagesAtOnce)) {
    const at::Tensor rows =
        at::im2col(some.to(at::kDouble), {q, q}, {1, 1}, {0, 0}, {1, 1}).transpose(1, 2).flatten(0, 1);
    products += at::mm(rows.t(), rows);
    sums += rows.sum(0);
    patches += rows.size(0);
  }
  const at::Tensor mean = sums / patches;
  return products / patches - at::outer(mean, mean);
}

at::Tensor WhiteningFilters(const at::Tensor& covariance, int64_t channels, double eps) {
  const auto [values, vectors] = at::linalg_eigh(covariance.to(at::kCPU, at::kDouble));
  at::Tensor directions = vectors.t().flip({0});
  const at::Tensor largest = directions.abs().argmax(1, /*keepdim=*/true);
  directions = directions * directions.gather(1, largest).sign();
  // Rounding may leave the smallest below 0.
  const at::Tensor scaled = directions * at::rsqrt(values.flip({0}).clamp_min(0) + eps).unsqueeze(1);
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(covariance.size(0) / static_cast<double>(channels))));
  return at::cat({scaled, -scaled}).view({-1, channels, side, side}).to(at::kFloat);
}

WhiteningLayer::WhiteningLayer(int64_t channels, int64_t kernel_size) {
  const int64_t filters = 2 * channels * kernel_size * kernel_size;
  weight_ = register_buffer("weight", torch::zeros({filters, channels, kernel_size, kernel_size}));
  bias_ = register_parameter("bias", torch::zeros({filters}));
}

at::Tensor WhiteningLayer::forward(const at::Tensor& x) {
  const int64_t before = (weight_.size(2) - 1) / 2, after = weight_.size(2) / 2;
  const at::Tensor padded = at::constant_pad_nd(x, {before, after, before, after});
  return at::gelu(at::conv2d(padded, weight_, bias_));
}

WhitenedConv2d::WhitenedConv2d(const torch::nn::Conv2dImpl& conv, int64_t kernel_size) {
  const auto& old = conv.options;
  TORCH_CHECK_VALUE(old.groups() == 1, "whitening_conv: the convolution has ", old.groups(),
                    " groups, it must have one");
  const int64_t channels = old.in_channels(), filters = 2 * channels * kernel_size * kernel_size;
  const auto options = torch::nn::Conv2dOptions(filters, old.out_channels(), old.kernel_size())
                           .stride(old.stride())
                           .padding(old.padding())
                           .dilation(old.dilation())
                           .bias(old.bias())
                           .padding_mode(old.padding_mode());
  whiten_ = Slot<Layer>(*this, "whiten", std::make_shared<WhiteningLayer>(channels, kernel_size));
  conv_ = Slot<Layer>(*this, "conv", std::make_shared<Conv2dLayer>(options));
}

absl::Status WhiteningConv::ChangeModel(Model& model, const ModelContext& context) {
  if (!FindLayers(model, LayersOfType<WhitenedConv2d>()).empty())
    return absl::InvalidArgumentError("whitening_conv: the model's images are whitened already");
  NamedModules convs = FindLayers(model, LayersOfType<torch::nn::Conv2dImpl>());
  std::vector<std::string> names;
  for (const auto& [name, conv] : convs) names.push_back(name);
  if (names.size() > 5) names.resize(5);
  const std::string found = names.empty() ? "has no convolution" : "has " + absl::StrJoin(names, ", ");
  if (options_.layer.empty()) {
    convs.resize(std::min<size_t>(convs.size(), 1));
  } else {
    std::erase_if(convs, [&, chosen = LayersNamed(options_.layer)](const auto& item) {
      return !chosen(item.first, *item.second);
    });
  }
  ReplaceLayersOf(model, context, [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    return convs.size() == 1 && module == convs[0].second
               ? std::make_shared<WhitenedConv2d>(*module->as<torch::nn::Conv2dImpl>(), options_.kernel_size)
               : std::shared_ptr<torch::nn::Module>();
  });
  if (convs.size() == 1 || !PoliciesFor(*this, context).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("whitening_conv: layer: ", options_.layer.empty() ? "the first" : options_.layer,
                   " is to be one convolution (Conv2d); ", ClassNameOf(model), " ", found));
}

absl::Status WhiteningConv::Apply(Event event, State& state, Logger& logger) {
  if (event == Event::kInit) return Surgery::Apply(event, state, logger);
  for (const auto& [name, module] : FindLayers(*state.model, LayersOfType<WhiteningLayer>())) {
    const auto& layer = *module->as<WhiteningLayer>();
    if (layer.weight().ne(0).any().item<bool>()) continue;  // from a checkpoint, or of an earlier Fit
    if (state.train_dataloader->dataset().size() <= 0)
      return absl::InvalidArgumentError(
          "whitening_conv: train_dataloader: its samples are read in order; the filters are computed from samples "
          "that are spread over the data, which needs data with an index");
    RETURN_IF_ERROR(CatchTorch([&] {
      const torch::NoGradGuard no_grad;
      const at::Tensor images = ImagesOf(*state.train_dataloader, options_.samples, layer);
      const at::Tensor covariance = PatchCovariance(images, options_.kernel_size);
      at::Tensor(layer.weight()).copy_(WhiteningFilters(covariance, layer.weight().size(1), options_.eps));
    }));
  }
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> WhiteningConv::LayersOf(const Model& model) const {
  return {{"whitening_conv/num_layers", FindLayers(model, LayersOfType<WhiteningLayer>()).size()}};
}

}  // namespace composer
