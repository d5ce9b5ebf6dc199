// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/blur_pool.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>
#include <torch/types.h>

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/model.h"

namespace composer {
namespace {

// Made by operations, which can be recorded (init/deferred_init.h), and not from a list of values.
at::Tensor BlurFilter(int64_t channels) {
  const at::Tensor row = 2 - (torch::arange(3, at::kFloat) - 1).abs();  // 1 2 1
  return (row.view({3, 1}) * row / 16).repeat({channels, 1, 1, 1});
}

// Blurs [B, C, H, W] and takes every stride-th value, with a filter [C, 1, 3, 3].
at::Tensor Blur(const at::Tensor& x, const at::Tensor& filter, at::IntArrayRef stride) {
  return at::conv2d(x, filter, {}, stride, /*padding=*/at::IntArrayRef{1, 1}, /*dilation=*/1, filter.size(0));
}

bool IsStrided(const torch::nn::Conv2dImpl& conv) {
  const auto& stride = *conv.options.stride();
  return std::any_of(stride.begin(), stride.end(), [](int64_t step) { return step > 1; });
}

}  // namespace

BlurConv2d::BlurConv2d(const std::shared_ptr<torch::nn::Module>& conv, bool blur_first)
    : blur_first_(blur_first), blur_stride_{1, 1}, conv_(*this, "conv", conv) {
  auto& options = conv->as<torch::nn::Conv2dImpl>()->options;
  if (!blur_first) {
    blur_stride_.assign(options.stride()->begin(), options.stride()->end());
    options.stride(1);
  }
  blur_filter_ =
      register_buffer("blur_filter", BlurFilter(blur_first ? options.in_channels() : options.out_channels()));
}

at::Tensor BlurConv2d::forward(const at::Tensor& x) {
  return blur_first_ ? conv_->forward(Blur(x, blur_filter_, blur_stride_))
                     : Blur(conv_->forward(x), blur_filter_, blur_stride_);
}

BlurMaxPool2d::BlurMaxPool2d(const torch::nn::MaxPool2dOptions& options)
    : options_(options), filt2d_(register_buffer("filt2d", BlurFilter(1))) {}

at::Tensor BlurMaxPool2d::forward(const at::Tensor& x) {
  const at::Tensor largest = at::max_pool2d(x, *options_.kernel_size(), /*stride=*/1, *options_.padding(),
                                            *options_.dilation(), options_.ceil_mode());
  return Blur(largest, filt2d_.expand({x.size(1), 1, 3, 3}), *options_.stride());
}

BlurPool::BlurPool(const BlurPoolOptions& options) : options_(options) {
  TORCH_CHECK_VALUE(options.replace_convs || options.replace_maxpools,
                    "blurpool: replace_convs and replace_maxpools are both false, which leaves nothing to replace");
}

absl::Status BlurPool::ChangeModel(Model& model, const ModelContext& context) {
  // A convolution after its blur is not blurred again.
  absl::flat_hash_set<const torch::nn::Module*> done;
  for (const auto& [name, blurred] : FindLayers(model, LayersOfType<BlurConv2d>()))
    done.insert(blurred->named_children()["conv"].get());
  ReplaceLayersOf(model, context, [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    std::shared_ptr<torch::nn::Module> replacement;
    if (const auto* pool = module->as<torch::nn::MaxPool2dImpl>(); pool != nullptr && options_.replace_maxpools)
      replacement = std::make_shared<BlurMaxPool2d>(pool->options);
    const auto* conv = module->as<torch::nn::Conv2dImpl>();
    if (conv != nullptr && options_.replace_convs && !done.contains(conv) && IsStrided(*conv) &&
        conv->options.in_channels() >= options_.min_channels) {
      replacement = std::make_shared<BlurConv2d>(module, options_.blur_first);
    }
    return replacement;
  });
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> BlurPool::LayersOf(const Model& model) const {
  return {{"blurpool/num_blurpool_layers", FindLayers(model, LayersOfType<BlurMaxPool2d>()).size()},
          {"blurpool/num_blurconv_layers", FindLayers(model, LayersOfType<BlurConv2d>()).size()}};
}

std::string BlurPool::wanted() const {
  const std::string convs = options_.replace_convs
                                ? absl::StrCat("strided convolution of at least ", options_.min_channels, " channels")
                                : "";
  return absl::StrCat(convs, options_.replace_convs && options_.replace_maxpools ? " and no " : "",
                      options_.replace_maxpools ? "max pool" : "");
}

}  // namespace composer
