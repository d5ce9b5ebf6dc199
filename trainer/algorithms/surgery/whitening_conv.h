// WhiteningConv puts a frozen convolution in front of a model's first one, whose filters are the directions in which
// patches of the training images vary, each scaled to variance 1, with both signs:
//
//   C = covariance of the q x q patches,   C = V diag(e) V'
//   filters = [W, -W],   row i of W = V[:, i]' / sqrt(e_i + eps)
//   y = conv(gelu(filters * x + bias))
//
// so that the network begins with features that are not correlated. Of c channels there are 2 c q² filters; the image
// keeps its size (zeros at its right and lower edge), and only the bias is trained. `conv` is the model's convolution
// for that many channels, with first values as torch draws them. The filters are a buffer, which checkpoints have.
//
// They are computed when training begins, unless a checkpoint had them, from samples spread evenly over the training
// data as they are in epoch 0: by every rank from the same ones, so the same on any number of ranks.
//
// Source: github.com/tysam-code/hlb-CIFAR10 (get_whitening_parameters); Jordan 2024 (airbench), arXiv:2404.00498,
// section 3.1; both signs and eps as in the latter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/slot.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

struct WhiteningConvOptions {
  int64_t kernel_size = 2;  // q, 1 to 7
  double eps = 5e-4;        // >= 0
  int64_t samples = 1000;   // > 0; fewer if the data has fewer
  std::string layer;        // fnmatch pattern of the convolution's name; "": the model's first
};

// Returns the covariance of the patches of images [B, C, H, W], float64 [C q², C q²], each patch in the order of a
// filter [C, q, q]. Throws c10::ValueError for images that are smaller than a patch.
at::Tensor PatchCovariance(const at::Tensor& images, int64_t kernel_size);

// Returns the filters [2 n, channels, q, q] of a covariance [n, n], n = channels q², from the direction of the largest
// variance on. In each of the first n the largest weight is positive.
at::Tensor WhiteningFilters(const at::Tensor& covariance, int64_t channels, double eps);

// gelu(filters * x + bias). Buffer: weight [2 c q², c, q, q], 0 until it is set. Parameter: bias [2 c q²].
class WhiteningLayer final : public torch::nn::Module, public Layer {
 public:
  WhiteningLayer(int64_t channels, int64_t kernel_size);
  // Maps [B, c, H, W] to [B, 2 c q², H, W].
  at::Tensor forward(const at::Tensor& x) override;
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_, bias_;
};

// A convolution behind its WhiteningLayer. Parameters and buffers are those of the two under `whiten.` and `conv.`.
class WhitenedConv2d final : public torch::nn::Module, public Layer {
 public:
  // Throws c10::ValueError for a convolution with groups.
  WhitenedConv2d(const torch::nn::Conv2dImpl& conv, int64_t kernel_size);
  at::Tensor forward(const at::Tensor& x) override { return conv_->forward(whiten_->forward(x)); }

 private:
  Slot<Layer> whiten_, conv_;
};

class WhiteningConv final : public Surgery {
 public:
  explicit WhiteningConv(WhiteningConvOptions options = {}) : options_(std::move(options)) {}
  std::string name() const override { return "WhiteningConv"; }
  EventSet events() const override { return {Event::kInit, Event::kFitStart}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  // At FIT_START sets filters that are 0. Returns kInvalidArgument for data that is read in order or has no images.
  absl::Status Apply(Event event, State& state, Logger& logger) override;
  // Returns kInvalidArgument unless one convolution has such a name; it names the convolutions that are there.
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;

 private:
  WhiteningConvOptions options_;
};

}  // namespace composer
