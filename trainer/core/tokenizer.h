// A Tokenizer turns text into tokens and back. A run has at most one (State::tokenizer); data, models, generation and
// plugins take it from there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trainer/core/batch.h"

namespace composer {

// Tokens with a meaning of their own; each is below vocab_size.
struct SpecialTokens {
  std::optional<int64_t> bos, eos, pad, unk, mask, cls, sep;
};

struct Encoding {
  std::vector<int64_t> ids;
  // The bytes [begin, end) of the text that each token stands for; begin == end for a token that was added.
  std::vector<std::pair<int64_t, int64_t>> offsets;
};

// How several texts become one batch.
struct PaddingOptions {
  int64_t max_length = 0;      // tokens a row; 0: no limit. Longer texts are cut at their end
  bool to_max_length = false;  // pad to max_length (> 0) instead of the longest row
  bool add_special_tokens = true;
};

// Threads: any number at a time; the methods change nothing.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Returns the name for messages, such as "bytes".
  virtual std::string name() const = 0;
  // Tokens are 0 to vocab_size() - 1.
  virtual int64_t vocab_size() const = 0;
  virtual const SpecialTokens& special_tokens() const = 0;
  // Text that is not UTF-8 must not fail. With add_special_tokens, those that the tokenizer's models expect are added.
  virtual Encoding Encode(absl::string_view text, bool add_special_tokens = true) const = 0;
  // Tokens outside of the vocabulary are skipped.
  virtual std::string Decode(absl::Span<const int64_t> tokens, bool skip_special_tokens = true) const = 0;

  // Returns the files of which it can be made again, name and bytes, for exports: a Hugging Face tokenizer's are
  // tokenizer.json and others. Names have no directory. Empty: its name says all.
  virtual std::vector<std::pair<std::string, std::string>> Files() const { return {}; }

  // Returns a batch whose inputs are the tokens, int64 [B, T], padded at the end with `pad` (0 if there is none), with
  // `attention_mask` int64 [B, T]: 1 for tokens, 0 for padding. num_tokens counts the tokens without padding. Throws
  // c10::ValueError when to_max_length has no max_length.
  Batch EncodeBatch(const std::vector<std::string>& texts, const PaddingOptions& options = {}) const;
};

}  // namespace composer
