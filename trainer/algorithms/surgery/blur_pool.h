// BlurPool smooths what strided convolutions and max pools sample, so that small shifts of an image change little:
//
//   strided convolution   blur_first: the input is blurred, then convolved as before; else: convolved with stride 1,
//                         then blurred and sampled with the stride, which costs stride² times the operations
//   max pool              the maximum with stride 1, then blurred and sampled with the stride
//
// The blur is the binomial filter [1 2 1]' [1 2 1] / 16 of each channel, padded with zeros. Source: Zhang 2019,
// arXiv:1904.11486; mosaicml composer/algorithms/blurpool. Fixed here: a convolution keeps its padding mode.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/slot.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

struct BlurPoolOptions {
  bool replace_convs = true;
  bool replace_maxpools = true;
  bool blur_first = true;
  int64_t min_channels = 16;  // convolutions with fewer input channels stay
};

// Parameters are those of the convolution under `conv.`, and there is the buffer blur_filter [channels, 1, 3, 3].
class BlurConv2d final : public torch::nn::Module, public Layer {
 public:
  // `conv` is a Conv2dImpl and a Layer. Sets its stride to 1 unless blur_first.
  BlurConv2d(const std::shared_ptr<torch::nn::Module>& conv, bool blur_first);
  at::Tensor forward(const at::Tensor& x) override;

 private:
  bool blur_first_;
  std::vector<int64_t> blur_stride_;
  Slot<Layer> conv_;
  at::Tensor blur_filter_;
};

// Has the buffer filt2d [1, 1, 3, 3].
class BlurMaxPool2d final : public torch::nn::Module, public Layer {
 public:
  explicit BlurMaxPool2d(const torch::nn::MaxPool2dOptions& options);
  at::Tensor forward(const at::Tensor& x) override;

 private:
  torch::nn::MaxPool2dOptions options_;
  at::Tensor filt2d_;
};

class BlurPool final : public Surgery {
 public:
  // Throws c10::ValueError when nothing is to be replaced.
  explicit BlurPool(const BlurPoolOptions& options);
  std::string name() const override { return "BlurPool"; }
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;
  std::string wanted() const override;

 private:
  BlurPoolOptions options_;
};

}  // namespace composer
