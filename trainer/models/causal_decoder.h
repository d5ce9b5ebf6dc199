// What text generation (trainer/loop/generate_loop.h) needs of a language model besides being a Model: the logits of the token
// that comes next, and, to have them without computing everything again, a cache of what the tokens so far left behind.
// A model of a plugin or a program is generated from when it derives from this, too; from LanguageModel, it does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace composer {

// Keys and values of the tokens that rows have so far; what is in it is the model's affair.
class DecoderCache {
 public:
  virtual ~DecoderCache() = default;
};

class CausalDecoder {
 public:
  virtual ~CausalDecoder() = default;

  // The most tokens that a row may have.
  virtual int64_t context() const = 0;
  // Tokens are 0 to vocab() - 1.
  virtual int64_t vocab() const = 0;

  // An empty cache of so many rows of up to `capacity` tokens. Null, the default: the model has none, and every token
  // is computed from all before it.
  virtual std::unique_ptr<DecoderCache> NewCache(int64_t rows, int64_t capacity) { return nullptr; }

  // Logits [B, vocab()] of the token after each row's last. lengths: how many tokens each row has by now, at least 1.
  // No cache, or an empty one (which is filled): tokens int64 [B, T] are all of them, each row from column 0 on; what
  // stands in columns from lengths[row] on must not matter. Later with that cache: tokens [B, 1] are those at place
  // lengths[row] - 1; a place that was there already is overwritten, and places behind it are forgotten.
  //
  // A row's logits must not depend on other rows, but for the rounding of products of other shapes. Under tensor
  // parallelism all ranks of a group must have the same bits. Called without gradients, in evaluation mode.
  virtual at::Tensor NextLogits(const at::Tensor& tokens, absl::Span<const int64_t> lengths, DecoderCache* cache) = 0;

  // Text to tokens and back. The default: a token a byte (data/text_bytes.h); a token that is none is left out.
  virtual std::vector<int64_t> Encode(absl::string_view text) const;
  virtual std::string Decode(absl::Span<const int64_t> tokens) const;
};

// x[row, lengths[row] - 1, :] for each row of x [B, T, W].
at::Tensor LastOfEachRow(const at::Tensor& x, absl::Span<const int64_t> lengths);

}  // namespace composer
