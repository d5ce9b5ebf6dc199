// The cache of a transformer's attention: keys and values of every layer, each row with a length of its own.
//
// Rows begin at place 0, so a row's positions and its attention are those that it would have alone: prompts of different
// lengths need no padding on the left. The first pass runs over the longest prompt; what it leaves at the places behind a
// shorter row's end is hidden by the mask of later passes, and overwritten by them.
// A block gets its layer's part as further inputs (Block::Run), which is how it passes through FSDP's wrappers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "trainer/models/causal_decoder.h"

namespace composer {

class AttentionCache final : public DecoderCache {
 public:
  // heads: those of this rank, of head_width elements each.
  struct Shape {
    int64_t layers, heads, head_width;
  };
  AttentionCache(const Shape& shape, int64_t rows, int64_t capacity)
      : shape_(shape), rows_(rows), capacity_(capacity) {}

  // A pass over the next tokens [rows, T], of which each row has lengths[row] by now, those before included. x: the
  // first block's input, for device and dtype; with autocast the cache has autocast's.
  void BeginPass(const at::Tensor& x, int64_t tokens, absl::Span<const int64_t> lengths);
  // Inputs of a layer's block: {x, keys, values, rows, places, mask}, of which the last three are undefined in the first
  // pass and the mask also when all rows have one length.
  std::vector<at::Tensor> Inputs(const at::Tensor& x, size_t layer) const;
  // Of the new tokens of this pass, [rows].
  const at::Tensor& places() const { return places_; }

 private:
  void MakeMemory(const at::Tensor& x);

  Shape shape_;
  int64_t rows_, capacity_;
  std::vector<at::Tensor> keys_, values_;  // by layer: [rows, capacity, heads, head_width]
  int64_t longest_ = 0;                    // after this pass
  at::Tensor row_indices_, places_, mask_;
};

// Attention of q, k, v [B, heads, T, D], of the tokens of this pass, over these and those in the cache, which takes k and
// v. inputs: of the block, as Inputs makes them. Returns [B, heads, T, D].
at::Tensor CachedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::vector<at::Tensor>& inputs);

}  // namespace composer
