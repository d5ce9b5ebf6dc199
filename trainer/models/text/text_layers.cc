// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/text_layers.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

namespace composer {

RmsNormLayer::RmsNormLayer(int64_t width, double eps)
    : weight_(register_parameter("weight", torch::ones({width}))), eps_(eps) {}

at::Tensor RmsNormLayer::WithoutKernel(const at::Tensor& x) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scaled = wide * at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + eps_);
  return weight_ * scaled.to(x.scalar_type());
}

std::shared_ptr<torch::nn::Module> MakeActivation(absl::string_view field, const std::string& name) {
  if (name == "gelu") return std::make_shared<GeluLayer>();
  if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_pytorch_tanh")
    return std::make_shared<GeluLayer>(torch::nn::GELUOptions().approximate("tanh"));
  if (name == "relu") return std::make_shared<ReluLayer>();
  if (name == "silu" || name == "swish") return std::make_shared<SiluLayer>();
  TORCH_CHECK_VALUE(false, "model.", field, ": `", name,
                    "`; supported are gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, silu and swish");
}

std::shared_ptr<LinearLayer> MakeLinear(int64_t in, int64_t out, bool bias) {
  return std::make_shared<LinearLayer>(torch::nn::LinearOptions(in, out).bias(bias));
}

std::shared_ptr<LinearLayer> MakeHeadsLinear(int64_t in, int64_t heads, int64_t head_width, bool bias, int64_t parts) {
  auto linear = MakeLinear(in, parts * heads * head_width, bias);
  linear->division = {.parts = parts, .units = heads};
  return linear;
}

std::shared_ptr<LayerNormLayer> MakeLayerNorm(int64_t width, double eps) {
  return std::make_shared<LayerNormLayer>(torch::nn::LayerNormOptions({width}).eps(eps));
}

std::shared_ptr<EmbeddingLayer> MakeEmbedding(int64_t rows, int64_t width, int64_t padding) {
  torch::nn::EmbeddingOptions options(rows, width);
  if (padding >= 0) options.padding_idx(padding);
  return std::make_shared<EmbeddingLayer>(options);
}

at::Tensor EmbedTokens(EmbeddingLayer& table, const at::Tensor& tokens) {
  try {
    return table.forward(tokens);
  } catch (const c10::IndexError&) {
    const int64_t vocab = table.options.num_embeddings(), largest = tokens.max().item<int64_t>();
    TORCH_CHECK_VALUE(largest < vocab, "model.vocab_size: token ", largest, " >= vocab_size ", vocab);
    throw;
  }
}

void InitialiseTextModel(torch::nn::Module& model, double std) {
  const at::NoGradGuard no_grad;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    const bool draws = module->as<torch::nn::LinearImpl>() != nullptr || module->as<Conv1dLayer>() != nullptr ||
                       module->as<torch::nn::EmbeddingImpl>() != nullptr;
    if (!draws) continue;
    for (const auto& item : module->named_parameters(/*recurse=*/false)) {
      at::Tensor param = item.value();
      item.key() == "bias" ? param.zero_() : param.normal_(0, std);
    }
    const auto* table = module->as<torch::nn::EmbeddingImpl>();
    if (table != nullptr && table->options.padding_idx())
      at::Tensor(table->weight)[*table->options.padding_idx()].zero_();
  }
}

}  // namespace composer
