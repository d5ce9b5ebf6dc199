// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/decoder_model.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "trainer/layers/layer_selector.h"
#include "trainer/models/sequence_mask.h"
#include "trainer/parallel/tensor/split_linear.h"

namespace composer {
namespace {

// Returns which tokens see which, [B, 1, T, T]; undefined: all earlier ones. Padding sees itself, since a softmax over
// nothing is not a number.
at::Tensor VisibleTokens(const Batch& batch) {
  const at::Tensor within = SequenceMask(batch);
  const auto given = batch.extra.find("attention_mask");
  if (given == batch.extra.end()) return within;
  const at::Tensor& mask = given->second;
  TORCH_CHECK_VALUE(mask.sizes() == batch.inputs.sizes(), "model: attention_mask must have the inputs' shape ",
                    batch.inputs.sizes(), ", got ", mask.sizes());
  const at::Tensor visible = mask.ne(0);
  if (mask.device().is_cpu() && visible.all().item<bool>()) return within;
  const at::Tensor square = at::ones({mask.size(1), mask.size(1)}, visible.options());
  const at::Tensor seen =
      (visible.unsqueeze(1) & square.tril()).logical_or_(at::eye(mask.size(1), visible.options())).unsqueeze(1);
  return within.defined() ? seen & within : seen;
}

void Append(std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& further) {
  inputs.insert(inputs.end(), further.begin(), further.end());
}

}  // namespace

Outputs DecoderModel::forward(const Batch& batch) { return LogitsOrLosses(Hidden(batch), batch); }

at::Tensor DecoderModel::Hidden(const Batch& batch) {
  const at::Tensor& tokens = batch.inputs;
  TORCH_CHECK_VALUE(tokens.dim() == 2, "model: expected inputs [B, T], got ", tokens.sizes());
  TORCH_CHECK_VALUE(tokens.size(1) <= context(), "model: it takes ", context(), " tokens, but a sample has ",
                    tokens.size(1));
  at::Tensor x = AddPositions(Embed(tokens), {});
  const std::vector<at::Tensor> further = Further(x, {});
  const at::Tensor visible = VisibleTokens(batch);
  int64_t window = 0;
  at::Tensor mask = visible;
  for (size_t layer = 0; layer < blocks().size(); ++layer) {
    const int64_t own = shape_.windows.empty() ? 0 : shape_.windows[layer];
    if (own != window) mask = WithinWindow(visible, window = own, x);
    std::vector<at::Tensor> inputs = UncachedInputs(x, mask);
    Append(inputs, further);
    x = blocks()[layer].Run(inputs);
  }
  return LastNorm(x);
}

std::unique_ptr<DecoderCache> DecoderModel::NewCache(int64_t rows, int64_t capacity) {
  AttentionCache::Shape cache{shape_.layers, shape_.heads, shape_.head_width, shape_.windows};
  for (const auto& [name, part] : FindLayers(*this, LayersOfType<ColwiseLinear>())) {
    const bool gives_keys =
        absl::EndsWith(name, "attn.k_proj") || absl::EndsWith(name, "attn.Wqkv") || absl::EndsWith(name, "attn.c_attn");
    if (gives_keys) cache.heads = shape_.heads / part->as<ColwiseLinear>()->ranks();
  }
  return std::make_unique<AttentionCache>(cache, rows, capacity);
}

at::Tensor DecoderModel::NextLogits(const at::Tensor& tokens, absl::Span<const int64_t> lengths, DecoderCache* cache) {
  if (cache == nullptr) return LanguageModel::NextLogits(tokens, lengths, nullptr);
  auto& memory = static_cast<AttentionCache&>(*cache);
  at::Tensor x = Embed(tokens);
  memory.BeginPass(x, tokens.size(1), lengths);
  const bool first = !memory.places().defined();
  const std::vector<at::Tensor> further = Further(x, memory.places());
  x = AddPositions(x, memory.places());
  for (size_t layer = 0; layer < blocks().size(); ++layer) {
    std::vector<at::Tensor> inputs = memory.Inputs(x, layer);
    Append(inputs, further);
    x = blocks()[layer].Run(inputs);
  }
  return Head(LastNorm(first ? LastOfEachRow(x, lengths) : x.squeeze(1)));
}

void DecoderModel::SetFlops(double weights, double width) {
  double seen = 0;  // tokens, over the layers
  for (size_t layer = 0; layer < static_cast<size_t>(shape_.layers); ++layer) {
    const int64_t window = shape_.windows.empty() ? 0 : shape_.windows[layer];
    seen += static_cast<double>(window > 0 ? std::min(window, context()) : context());
  }
  flops_per_sample_ = static_cast<double>(context()) * (6 * weights + 12 * width * seen);
}

}  // namespace composer
