// The cache of a transformer's attention: keys and values of every layer. Each row has its own length.
//
// Rows begin at place 0, so a row has the same positions and attention as it would have alone: prompts of different
// lengths need no padding on the left. The first pass runs over the longest prompt. What it leaves at the places after
// a shorter row's end is hidden by the mask of later passes, which also overwrite it.
//
// A layer with a window of W tokens, in which token t sees t - W + 1 … t, has memory for W tokens of a row: that of
// place p is at p modulo W. Attention does not depend on the order of the keys, which have their positions in them.
// A block gets its layer's part as further inputs (Block::Run), which is how the cache passes through FSDP's wrappers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "trainer/layers/attention_core.h"
#include "trainer/models/causal_decoder.h"

namespace composer {

class AttentionCache final : public DecoderCache {
 public:
  // heads counts those of this rank, each with head_width elements.
  struct Shape {
    int64_t layers, heads, head_width;
    std::vector<int64_t> windows = {};  // by layer, 0: all tokens; empty: none has a window
  };
  AttentionCache(const Shape& shape, int64_t rows, int64_t capacity)
      : shape_(shape), rows_(rows), capacity_(capacity) {}

  // Starts a pass over the next tokens [rows, T]. Each row has lengths[row] tokens by then, including earlier ones. x
  // is the first block's input and gives device and dtype; under autocast the cache has autocast's dtype. With windows
  // a row must not become shorter.
  void BeginPass(const at::Tensor& x, int64_t tokens, absl::Span<const int64_t> lengths);
  // Returns the inputs of a layer's block: {x, keys, values, rows, places, mask}. In later passes `places` [rows] says
  // where the memory is that the new tokens take; the mask is undefined when all of it is seen. In the first pass
  // `rows` is undefined; `places` [rows, W] are the tokens that a window keeps, and undefined when that is all.
  std::vector<at::Tensor> Inputs(const at::Tensor& x, size_t layer) const;
  // The places of the new tokens of this pass, [rows].
  const at::Tensor& places() const { return places_; }
  void Reorder(absl::Span<const int64_t> rows) override;

 private:
  void MakeMemory(const at::Tensor& x);
  // Returns the window of a layer if a row of so many tokens is longer, else 0.
  int64_t WindowBelow(size_t layer, int64_t tokens) const;
  // Of a first pass: the tokens of each row that a window keeps, [rows, window], in the order of the memory.
  at::Tensor KeptTokens(int64_t window) const;

  Shape shape_;
  int64_t rows_, capacity_;
  std::vector<at::Tensor> keys_, values_;  // by layer: [rows, capacity, heads, head_width]
  int64_t longest_ = 0;                    // after this pass, over all rows
  std::vector<int64_t> lengths_;           // of the rows after this pass
  at::Tensor row_indices_, places_, mask_;
};

// Returns k (or v) [B, heads', S, D] for each head of q [B, heads, T, D]: each of k's heads serves as many of q's, in
// order, as grouped-query attention has it. Ainslie et al. 2023, arXiv:2305.13245.
at::Tensor ForHeadsOf(const at::Tensor& q, const at::Tensor& k);

// Returns which tokens see which where a token sees `window` tokens, itself the last of them: mask [B or 1, 1, T, T]
// (undefined: all earlier ones) without the others. The mask itself if T is not larger or the window 0.
at::Tensor WithinWindow(const at::Tensor& mask, int64_t window, const at::Tensor& x);

// Returns the inputs of a block without a cache: those of AttentionCache::Inputs, undefined but for x and the mask
// [B, 1, T, T], which may be undefined too: then each token sees all earlier ones.
std::vector<at::Tensor> UncachedInputs(const at::Tensor& x, const at::Tensor& mask);

// Attention of q [B, heads, T, D], k and v [B, heads or fewer, T, D] with a block's inputs; with x alone, each token
// sees all earlier ones.
at::Tensor CausalAttention(AttentionCore& core, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::vector<at::Tensor>& inputs);
// The same of one product's result [B, T, 3 heads * head_width]: queries, keys and values. Returns [B, T, heads *
// head_width]. Backward writes the gradients of the three into that of qkv by a single copy.
at::Tensor CausalAttention(AttentionCore& core, const at::Tensor& qkv, int64_t head_width,
                           const std::vector<at::Tensor>& inputs);

// Attention of q [B, heads, T, D] and k, v [B, the cache's heads, T, D] of this pass's tokens over these and the cached
// tokens. k and v are added to the cache. inputs are the block's, as Inputs makes them. Returns [B, heads, T, D].
at::Tensor CachedAttention(AttentionCore& core, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::vector<at::Tensor>& inputs);

}  // namespace composer
