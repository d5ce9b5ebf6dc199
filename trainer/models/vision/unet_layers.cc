// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/unet_layers.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include "trainer/core/module_call.h"
#include "trainer/layers/attention_core.h"
#include "trainer/models/text/text_layers.h"

namespace composer {
namespace {

constexpr double kTransformerNormEps = 1e-6, kLayerNormEps = 1e-5;
constexpr int64_t kFeedForwardFactor = 4;

// inputs: the tokens [B, S, width] that look, and those that they look at, [B, T, context].
class UNetAttention final : public torch::nn::Module, public Layer {
 public:
  UNetAttention(UNetMaker& make, int64_t width, int64_t context, int64_t heads, double seen)
      : head_width_(width / heads),
        to_q_(*this, "to_q", Projection(make, width, width, heads, make.area())),
        to_k_(*this, "to_k", Projection(make, context, width, heads, seen)),
        to_v_(*this, "to_v", Projection(make, context, width, heads, seen)),
        core_(*this, "core", std::make_shared<DotProductAttention>(0.0)) {
    const auto out = std::make_shared<LayerSequence>();
    out->Add(make.Linear(width, width, make.area()));
    out->Add(std::make_shared<DropoutLayer>(make.dropout));
    to_out_ = Slot<Layer>(*this, "to_out", out);
    make.multiplications += 2 * make.area() * seen * static_cast<double>(width);
  }

  at::Tensor forward(const at::Tensor& x) override { return Run({x, x}); }
  at::Tensor Run(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor &x = inputs.at(0), &seen = inputs.at(1);
    ModuleCall call(*this, x);
    const at::Tensor q = SplitHeads(to_q_->forward(x), head_width_), k = SplitHeads(to_k_->forward(seen), head_width_);
    const at::Tensor v = SplitHeads(to_v_->forward(seen), head_width_);
    return call.Output(to_out_->forward(JoinHeads(core_->forward(q, k, v, std::nullopt, /*is_causal=*/false))));
  }

 private:
  static std::shared_ptr<LinearLayer> Projection(UNetMaker& make, int64_t in, int64_t width, int64_t heads,
                                                 double tokens) {
    auto linear = make.Linear(in, width, tokens, /*bias=*/false);
    linear->division = {.parts = 1, .units = heads};
    return linear;
  }

  int64_t head_width_;
  Slot<Layer> to_q_, to_k_, to_v_, to_out_;
  Slot<AttentionCore> core_;
};

// Half of the projection, times GELU of the other half. Shazeer 2020, arXiv:2002.05202.
class UNetGeglu final : public torch::nn::Module, public Layer {
 public:
  UNetGeglu(UNetMaker& make, int64_t in, int64_t out) : proj_(*this, "proj", make.Linear(in, 2 * out, make.area())) {}
  at::Tensor forward(const at::Tensor& x) override {
    const std::vector<at::Tensor> halves = proj_->forward(x).chunk(2, -1);
    return halves[0] * at::gelu(halves[1]);
  }

 private:
  Slot<Layer> proj_;
};

class UNetFeedForward final : public torch::nn::Module, public Layer {
 public:
  UNetFeedForward(UNetMaker& make, int64_t width) {
    const auto net = std::make_shared<LayerSequence>();
    net->Add(std::make_shared<UNetGeglu>(make, width, kFeedForwardFactor * width));
    net->Add(std::make_shared<DropoutLayer>(make.dropout));
    net->Add(make.Linear(kFeedForwardFactor * width, width, make.area()));
    net_ = Slot<Layer>(*this, "net", net);
  }
  at::Tensor forward(const at::Tensor& x) override { return net_->forward(x); }

 private:
  Slot<Layer> net_;
};

class BasicTransformerBlock final : public torch::nn::Module, public Layer {
 public:
  BasicTransformerBlock(UNetMaker& make, int64_t width, int64_t heads)
      : norm1_(*this, "norm1", MakeLayerNorm(width, kLayerNormEps)),
        norm2_(*this, "norm2", MakeLayerNorm(width, kLayerNormEps)),
        norm3_(*this, "norm3", MakeLayerNorm(width, kLayerNormEps)),
        attn1_(*this, "attn1", std::make_shared<UNetAttention>(make, width, width, heads, make.area())),
        attn2_(*this, "attn2",
               std::make_shared<UNetAttention>(make, width, make.context_width, heads,
                                               static_cast<double>(make.context_tokens))),
        ff_(*this, "ff", std::make_shared<UNetFeedForward>(make, width)) {}

  at::Tensor forward(const at::Tensor& x) override { return Run({x, x}); }
  at::Tensor Run(const std::vector<at::Tensor>& inputs) override {
    at::Tensor x = inputs.at(0);
    const at::Tensor normed = norm1_->forward(x);
    x = attn1_->Run({normed, normed}) + x;
    x = attn2_->Run({norm2_->forward(x), inputs.at(1)}) + x;
    return ff_->forward(norm3_->forward(x)) + x;
  }

 private:
  Slot<Layer> norm1_, norm2_, norm3_, attn1_, attn2_, ff_;
};

}  // namespace

std::shared_ptr<Conv2dLayer> UNetMaker::Conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  side = (side + stride - 1) / stride;
  multiplications += area() * static_cast<double>(in) * static_cast<double>(out * kernel * kernel);
  return std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2));
}

std::shared_ptr<GroupNormLayer> UNetMaker::Norm(int64_t channels, double eps) const {
  TORCH_CHECK_VALUE(channels % groups == 0, "model.norm_num_groups: ", groups, " does not divide ", channels,
                    " channels");
  return std::make_shared<GroupNormLayer>(torch::nn::GroupNormOptions(groups, channels).eps(eps));
}

std::shared_ptr<LinearLayer> UNetMaker::Linear(int64_t in, int64_t out, double tokens, bool bias) {
  multiplications += tokens * static_cast<double>(in) * static_cast<double>(out);
  return MakeLinear(in, out, bias);
}

ResnetBlock2D::ResnetBlock2D(UNetMaker& make, int64_t in, int64_t out)
    : norm1_(*this, "norm1", make.Norm(in, make.norm_eps)),
      conv1_(*this, "conv1", make.Conv(in, out)),
      time_emb_proj_(make.time_width == 0 ? Slot<Layer>()
                                          : Slot<Layer>(*this, "time_emb_proj", make.Linear(make.time_width, out, 1))),
      norm2_(*this, "norm2", make.Norm(out, make.norm_eps)),
      dropout_(*this, "dropout", std::make_shared<DropoutLayer>(make.dropout)),
      conv2_(*this, "conv2", make.Conv(out, out)) {
  if (in != out) conv_shortcut_ = Slot<Layer>(*this, "conv_shortcut", make.Conv(in, out, /*kernel=*/1));
}

at::Tensor ResnetBlock2D::Compute(const std::vector<at::Tensor>& inputs) {
  const at::Tensor& x = inputs[0];
  at::Tensor y = conv1_->forward(at::silu(norm1_->forward(x)));
  if (time_emb_proj_) y = y + time_emb_proj_->forward(at::silu(inputs.at(1))).unsqueeze(-1).unsqueeze(-1);
  y = conv2_->forward(dropout_->forward(at::silu(norm2_->forward(y))));
  return (conv_shortcut_ ? conv_shortcut_->forward(x) : x) + y;
}

Transformer2DModel::Transformer2DModel(UNetMaker& make, int64_t width, int64_t heads, int64_t layers)
    : linear_projection_(make.linear_projection), norm_(*this, "norm", make.Norm(width, kTransformerNormEps)) {
  TORCH_CHECK_VALUE(width % heads == 0, "model.attention_head_dim: ", heads, " heads do not divide ", width,
                    " channels");
  const auto projection = [&]() -> std::shared_ptr<torch::nn::Module> {
    if (linear_projection_) return make.Linear(width, width, make.area());
    return make.Conv(width, width, /*kernel=*/1);
  };
  proj_in_ = Slot<Layer>(*this, "proj_in", projection());
  blocks_ = register_module("transformer_blocks", std::make_shared<LayerList>());
  for (int64_t i = 0; i < layers; ++i) blocks_->Add(std::make_shared<BasicTransformerBlock>(make, width, heads));
  proj_out_ = Slot<Layer>(*this, "proj_out", projection());
}

at::Tensor Transformer2DModel::Compute(const std::vector<at::Tensor>& inputs) {
  const at::Tensor& x = inputs[0];
  const int64_t samples = x.size(0), width = x.size(1), rows = x.size(2), columns = x.size(3);
  at::Tensor y = norm_->forward(x);
  if (!linear_projection_) y = proj_in_->forward(y);
  y = y.permute({0, 2, 3, 1}).reshape({samples, rows * columns, width});
  if (linear_projection_) y = proj_in_->forward(y);
  for (size_t i = 0; i < blocks_->size(); ++i) y = (*blocks_)[i].Run({y, inputs.at(1)});
  if (linear_projection_) y = proj_out_->forward(y);
  y = y.reshape({samples, rows, columns, width}).permute({0, 3, 1, 2}).contiguous();
  if (!linear_projection_) y = proj_out_->forward(y);
  return y + x;
}

Downsample2D::Downsample2D(UNetMaker& make, int64_t width)
    : conv_(*this, "conv", make.Conv(width, width, /*kernel=*/3, /*stride=*/2)) {}

Upsample2D::Upsample2D(UNetMaker& make, int64_t width, int64_t side) {
  make.side = side;
  conv_ = Slot<Layer>(*this, "conv", make.Conv(width, width));
}

at::Tensor Upsample2D::Compute(const std::vector<at::Tensor>& inputs) {
  const at::Tensor& x = inputs[0];
  const int64_t rows = inputs.size() > 1 ? inputs[1].size(2) : 2 * x.size(2);
  const int64_t columns = inputs.size() > 1 ? inputs[1].size(3) : 2 * x.size(3);
  return conv_->forward(at::upsample_nearest2d(x, {rows, columns}));
}

}  // namespace composer
