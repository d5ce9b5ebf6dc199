// torch's layers as Layers: the same parameters, names, options, first values and results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>

#include "trainer/kernels/cpu_gelu.h"
#include "trainer/layers/fused_layers.h"
#include "trainer/layers/layer.h"

namespace composer {

// TorchLayer<torch::nn::SomethingImpl> is constructed like SomethingImpl. `dynamic_cast` and `as` to SomethingImpl find
// it.
template <typename Impl>
class TorchLayer : public Impl, public Layer {
 public:
  using Impl::Impl;
  at::Tensor forward(const at::Tensor& x) override { return Impl::forward(x); }
};

using Conv2dLayer = TorchLayer<torch::nn::Conv2dImpl>;
using BatchNorm2dLayer = TorchLayer<torch::nn::BatchNorm2dImpl>;
using GroupNormLayer = TorchLayer<torch::nn::GroupNormImpl>;
using EmbeddingLayer = TorchLayer<torch::nn::EmbeddingImpl>;
using MaxPool2dLayer = TorchLayer<torch::nn::MaxPool2dImpl>;
using ReluLayer = TorchLayer<torch::nn::ReLUImpl>;
using SiluLayer = TorchLayer<torch::nn::SiLUImpl>;
using SigmoidLayer = TorchLayer<torch::nn::SigmoidImpl>;

class GeluLayer : public TorchLayer<torch::nn::GELUImpl> {
 public:
  using TorchLayer::TorchLayer;
  at::Tensor forward(const at::Tensor& x) override {
    return options.approximate() == "tanh" ? kernels::GeluByTanh(x) : TorchLayer::forward(x);
  }
};

class LayerNormLayer : public torch::nn::LayerNormImpl, public NormLayer {
 public:
  using LayerNormImpl::LayerNormImpl;
  kernels::NormWeights norm_weights() const override { return {weight, bias, options.eps(), /*centred=*/true}; }
  at::Tensor WithoutKernel(const at::Tensor& x) override { return LayerNormImpl::forward(x); }
  using NormLayer::forward;
};

// Same as torch's F.linear, one operation. LibTorch's Linear adds the bias separately to a three-dimensional input,
// which rounds twice in bfloat16.
class LinearLayer : public TorchLayer<torch::nn::LinearImpl> {
 public:
  using TorchLayer::TorchLayer;
  at::Tensor forward(const at::Tensor& x) override { return at::linear(x, weight, bias); }

  // How the output may be shared between ranks (parallel/tensor/layer_plan.h): it consists of `parts` runs of equal
  // size (3: queries, keys, values), each of `units` runs of equal size that stay together (heads).
  struct Division {
    int64_t parts = 1;
    int64_t units = 0;  // 0: every feature is one
  };
  Division division;
};

// Without probability it costs nothing.
class DropoutLayer : public TorchLayer<torch::nn::DropoutImpl> {
 public:
  using TorchLayer::TorchLayer;
  at::Tensor forward(const at::Tensor& x) override {
    return options.p() == 0 ? x : at::dropout(x, options.p(), is_training());
  }
};

}  // namespace composer
