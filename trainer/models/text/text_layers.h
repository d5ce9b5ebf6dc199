// Layers that Hugging Face's text models have besides torch's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "trainer/layers/conv1d_layer.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

// x / sqrt(mean(x²) + eps) * weight over the last dimension, computed in float32. Source: Zhang and Sennrich 2019,
// arXiv:1910.07467.
class RmsNormLayer final : public torch::nn::Module, public NormLayer {
 public:
  RmsNormLayer(int64_t width, double eps);
  kernels::NormWeights norm_weights() const override { return {weight_, {}, eps_, /*centred=*/false}; }
  at::Tensor WithoutKernel(const at::Tensor& x) override;

 private:
  at::Tensor weight_;
  double eps_;
};

// Returns an activation by Hugging Face's name: gelu, gelu_new, gelu_fast and gelu_pytorch_tanh (these three are GELU's
// approximation by tanh), relu, silu, swish. Throws c10::ValueError that names `field`.
std::shared_ptr<torch::nn::Module> MakeActivation(absl::string_view field, const std::string& name);

std::shared_ptr<LinearLayer> MakeLinear(int64_t in, int64_t out, bool bias = true);
// One whose output consists of heads, for tensor parallelism (LinearLayer::Division).
std::shared_ptr<LinearLayer> MakeHeadsLinear(int64_t in, int64_t heads, int64_t head_width, bool bias,
                                             int64_t parts = 1);
std::shared_ptr<LayerNormLayer> MakeLayerNorm(int64_t width, double eps);

// padding: a row that begins at 0 and gets no gradient from look-ups; -1: none.
std::shared_ptr<EmbeddingLayer> MakeEmbedding(int64_t rows, int64_t width, int64_t padding = -1);

// Looks tokens up, [B, T] to [B, T, width]. Throws c10::ValueError naming model.vocab_size for a token that the table
// lacks.
at::Tensor EmbedTokens(EmbeddingLayer& table, const at::Tensor& tokens);

// Draws the values of a text model's layers, as transformers does: weights of Linear, Conv1D and Embedding from
// N(0, std), their biases and the rows of padding 0; norms as they are.
void InitialiseTextModel(torch::nn::Module& model, double std);

}  // namespace composer
