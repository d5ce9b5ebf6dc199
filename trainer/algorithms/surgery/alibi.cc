// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/alibi.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"
#include "trainer/layers/replace_layers.h"
#include "trainer/layers/torch_layers.h"

namespace composer {
namespace {

std::vector<double> SlopesOfPower(int64_t heads) {
  std::vector<double> slopes;
  for (int64_t h = 1; h <= heads; ++h)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(heads)));
  return slopes;
}

// GPT's name, and BERT's.
bool IsPositions(const std::string& name, const torch::nn::Module& module) {
  return module.as<torch::nn::EmbeddingImpl>() != nullptr &&
         (name == "wpe" || absl::EndsWith(name, ".wpe") || absl::EndsWith(name, "embeddings.position_embeddings"));
}

// Returns -m_h |t - s| for the last T of S tokens, [H, T, S].
at::Tensor Biases(const at::Tensor& slopes, int64_t queries, int64_t keys) {
  const auto options = torch::dtype(at::kFloat).device(slopes.device());
  const at::Tensor places = torch::arange(keys, options);
  const at::Tensor distances = (places - places.slice(0, keys - queries, keys).unsqueeze(1)).abs();
  return slopes.view({-1, 1, 1}) * -distances;
}

std::shared_ptr<torch::nn::Module> NoPositions(const torch::nn::EmbeddingImpl& old, int64_t length) {
  auto embedding = std::make_shared<EmbeddingLayer>(length, old.options.embedding_dim());
  const torch::NoGradGuard no_grad;
  embedding->weight.zero_();
  embedding->weight.set_requires_grad(false);
  return embedding;
}

}  // namespace

std::vector<double> AlibiSlopes(int64_t heads) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes = SlopesOfPower(power);
  const std::vector<double> finer = SlopesOfPower(2 * power);
  for (int64_t h = power; h < heads; ++h) slopes.push_back(finer[static_cast<size_t>(2 * (h - power))]);
  return slopes;
}

void ScaleSequences(Batch& batch, double scaling) {
  const auto shape = batch.inputs.sizes().vec();
  TORCH_CHECK_VALUE(shape.size() == 2, "alibi: train_sequence_length_scaling needs inputs [B, T], they have shape ",
                    shape);
  const auto rows = static_cast<int64_t>(static_cast<double>(shape[0]) / scaling);
  const auto tokens = static_cast<int64_t>(static_cast<double>(shape[1]) * scaling);
  const auto cut = [&](const std::string& name, at::Tensor& tensor) {
    TORCH_CHECK_VALUE(tensor.sizes() == shape && rows * tokens == shape[0] * shape[1],
                      "alibi: train_sequence_length_scaling ", scaling, " does not cut `", name, "` ", tensor.sizes(),
                      " into whole rows of ", tokens, " tokens");
    tensor = tensor.reshape({rows, tokens});
  };
  at::Tensor inputs = batch.inputs;
  if (batch.targets.defined()) cut("targets", batch.targets);
  for (auto& [name, tensor] : batch.extra) cut(name, tensor);
  cut("inputs", inputs);
  batch.inputs = inputs;
}

at::Tensor AlibiAttention::forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const std::optional<at::Tensor>& mask, bool is_causal) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  const int64_t queries = q.size(2), keys = k.size(2);
  const int64_t heads = q.size(1);
  const at::Tensor slopes = torch::tensor(AlibiSlopes(heads * ranks_), torch::dtype(at::kFloat));
  at::Tensor bias = Biases(slopes.slice(0, heads * rank_, heads * (rank_ + 1)).to(q.device()), queries, keys);
  if (is_causal) {
    const at::Tensor later = at::ones({queries, keys}, bias.options().dtype(at::kBool)).triu(keys - queries + 1);
    bias = bias.masked_fill(later, kHidden);
  }
  if (mask) bias = bias.masked_fill(mask->logical_not(), kHidden);
  return Attend(q, k, v, bias.to(q.scalar_type()), is_training() ? dropout_ : 0.0, /*is_causal=*/false);
}

absl::Status Alibi::ChangeModel(Model& model, const ModelContext& context) {
  const std::vector<LayerPolicy> policies = PoliciesFor(*this, context);
  size_t attentions = 0, positions = 0;
  ReplaceLayers(model, policies, [&](const std::string& name, const std::shared_ptr<torch::nn::Module>& module) {
    std::shared_ptr<torch::nn::Module> replacement;
    const bool is_done = dynamic_cast<const AlibiAttention*>(module.get()) != nullptr;
    if (const auto* attention = dynamic_cast<const DotProductAttention*>(module.get()))
      replacement = std::make_shared<AlibiAttention>(attention->dropout());
    if (IsPositions(name, *module)) {
      ++positions;
      replacement = NoPositions(*module->as<torch::nn::EmbeddingImpl>(), options_.max_sequence_length);
    }
    if (is_done || dynamic_cast<const DotProductAttention*>(module.get()) != nullptr) ++attentions;
    return replacement;
  });
  size_t by_policy = 0;
  for (const LayerPolicy& policy : policies) by_policy += FindLayers(model, policy.made).size();
  if (by_policy == 0 && (attentions == 0 || positions == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("alibi: it needs attention (DotProductAttention) and an embedding of positions, `wpe` or "
                     "`position_embeddings`; ",
                     ClassNameOf(model), " has ", attentions, " and ", positions));
  }
  return absl::OkStatus();
}

absl::Status Alibi::Apply(Event event, State& state, Logger& logger) {
  if (event == Event::kInit) {
    const size_t count = FindLayers(*state.model, LayersOfType<AlibiAttention>()).size();
    if (state.identity.data_ranks != state.identity.world_size && count == 0)
      return absl::InvalidArgumentError(
          "alibi: the model splits itself over ranks with attention of its own; give parallelism_config.tp.layer_plan");
    logger.LogHyperparameters({{"alibi/num_layers", absl::StrCat(count)}});
    return absl::OkStatus();
  }
  if (options_.train_sequence_length_scaling != 1 && state.batch.num_samples > 0)
    ScaleSequences(state.batch, options_.train_sequence_length_scaling);
  const at::Tensor& inputs = state.batch.inputs;
  if (state.batch.num_samples > 0 && inputs.dim() == 2 && inputs.size(1) > options_.max_sequence_length)
    return absl::InvalidArgumentError(absl::StrCat("alibi: max_sequence_length: ", options_.max_sequence_length,
                                                   ", but the batch has sequences of ", inputs.size(1), " tokens"));
  return absl::OkStatus();
}

}  // namespace composer
