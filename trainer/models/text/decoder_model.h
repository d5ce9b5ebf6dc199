// What the decoders of this room have in common: masks, the pass over the blocks, the cache, checks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "trainer/layers/attention_core.h"
#include "trainer/layers/layer_list.h"
#include "trainer/models/attention_cache.h"
#include "trainer/models/hugging_face_model.h"
#include "trainer/models/language_model.h"

namespace composer {

struct DecoderShape {
  int64_t layers, heads, head_width;  // heads of keys and values
  int64_t context, vocab;
  std::vector<int64_t> windows = {};  // by layer: how many tokens one sees, 0: all; empty: all see all
};

// forward maps inputs int64 [B, T] to logits [B, T, vocab]. Batches may have `attention_mask` [B, T], 0 for padding,
// which no token then sees, and `sequence_id` [B, T] (sequence_mask.h); the positions stay 0, 1, … A block gets
// AttentionCache's inputs, or UncachedInputs, and behind them what Further gives.
class DecoderModel : public LanguageModel, public HuggingFaceModel {
 public:
  Outputs forward(const Batch& batch) override;
  // Returns what the head gets, [B, T, width].
  at::Tensor Hidden(const Batch& batch);
  std::unique_ptr<DecoderCache> NewCache(int64_t rows, int64_t capacity) override;
  at::Tensor NextLogits(const at::Tensor& tokens, absl::Span<const int64_t> lengths, DecoderCache* cache) override;
  int64_t vocabulary() const override { return vocab(); }

 protected:
  explicit DecoderModel(const DecoderShape& shape) : LanguageModel(shape.context, shape.vocab), shape_(shape) {}
  // Looks tokens [B, T] up, [B, T, width].
  virtual at::Tensor Embed(const at::Tensor& tokens) = 0;
  // Returns the first block's input. places [B] are those of single tokens, [B, 1]; undefined: they are 0 … T - 1.
  virtual at::Tensor AddPositions(const at::Tensor& x, const at::Tensor& places) = 0;
  virtual std::vector<at::Tensor> Further(const at::Tensor& /*x*/, const at::Tensor& /*places*/) { return {}; }
  virtual LayerList& blocks() = 0;
  virtual at::Tensor LastNorm(const at::Tensor& x) = 0;
  at::Tensor Head(const at::Tensor& x) override = 0;

  const DecoderShape& shape() const { return shape_; }
  // Sets flops_per_sample: of a full context, 6 operations for each of `weights` in a matrix product and
  // 12 * context * `width` (of a layer's attention) for each layer, with its window in place of a longer context.
  // Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B.
  void SetFlops(double weights, double width);

 private:
  DecoderShape shape_;
};

}  // namespace composer
