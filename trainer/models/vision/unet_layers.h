// The blocks of diffusers' conditional U-Net, with its names of classes and parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/core/block.h"
#include "trainer/layers/layer_list.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

// What the layers of one U-Net have in common, and the count of its operations, to which each adds as it is made.
struct UNetMaker {
  int64_t time_width = 0;  // of the embedding of the time step; 0: there is none
  int64_t groups = 32;     // of the norms
  double norm_eps = 1e-5;
  double dropout = 0;
  int64_t context_width = 0;  // of the text; 0: none
  bool linear_projection = false;
  // For the count only:
  int64_t side = 64, context_tokens = 77;
  double multiplications = 0;  // of a forward pass of one picture

  std::shared_ptr<Conv2dLayer> Conv(int64_t in, int64_t out, int64_t kernel = 3, int64_t stride = 1);
  std::shared_ptr<GroupNormLayer> Norm(int64_t channels, double eps) const;
  // For a layer that is applied to each of `tokens`.
  std::shared_ptr<LinearLayer> Linear(int64_t in, int64_t out, double tokens, bool bias = true);
  double area() const { return static_cast<double>(side) * static_cast<double>(side); }
};

// Two convolutions with norms before them, between which the step's embedding is added; inputs: pictures
// [B, in, H, W] and the embedding [B, time_width], if there is one. Output: [B, out, H, W].
class ResnetBlock2D final : public Block {
 public:
  ResnetBlock2D(UNetMaker& make, int64_t in, int64_t out);

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override;

 private:
  Slot<Layer> norm1_, conv1_, time_emb_proj_, norm2_, dropout_, conv2_, conv_shortcut_;
};

// Attention of the pixels to each other and to the text, `layers` times; inputs: pictures [B, width, H, W] and the text
// [B, T, context_width]. The output has the shape of the pictures.
class Transformer2DModel final : public Block {
 public:
  Transformer2DModel(UNetMaker& make, int64_t width, int64_t heads, int64_t layers);

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override;

 private:
  bool linear_projection_;
  Slot<Layer> norm_, proj_in_, proj_out_;
  std::shared_ptr<LayerList> blocks_;
};

// Half the size: [B, width, H, W] to [B, width, ceil(H / 2), ceil(W / 2)].
class Downsample2D final : public Block {
 public:
  Downsample2D(UNetMaker& make, int64_t width);

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override { return conv_->forward(inputs[0]); }

 private:
  Slot<Layer> conv_;
};

// The nearest pixels, at the height and width of inputs[1] (without it: twice those of inputs[0]), and a convolution.
class Upsample2D final : public Block {
 public:
  // side: the picture's afterwards.
  Upsample2D(UNetMaker& make, int64_t width, int64_t side);

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override;

 private:
  Slot<Layer> conv_;
};

}  // namespace composer
