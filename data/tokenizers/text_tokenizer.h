// A tokenizer as the Hugging Face library `tokenizers` has it, without LibTorch: added tokens, normaliser,
// pre-tokenizer, model, post-processor, decoder. data/tokenizers/files makes them from files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "data/text/aligned_text.h"
#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/decoder.h"
#include "data/tokenizers/model/token_model.h"
#include "data/tokenizers/normalize/normalizer.h"
#include "data/tokenizers/split/pre_tokenizer.h"

namespace composer {

struct TokenizerParts {
  NormalizerPtr normalizer;       // null: none
  PreTokenizerPtr pre_tokenizer;  // null: the text is one piece
  std::unique_ptr<const TokenModel> model;
  std::vector<AddedToken> added;
  std::vector<uint32_t> hidden;          // tokens of the model that Decode leaves out as it does special ones
  std::vector<uint32_t> prefix, suffix;  // tokens that are added to a text
  // Spaces at the ends of tokens of bytes do not count into their spans; the one that the pre-tokenizer has
  // added counts for none.
  bool trims_spans = false, adds_space = false;
  bool of_bytes = false;                 // the model's tokens are bytes
  std::vector<DecodeStep> decode_steps;  // none: the texts of the tokens are joined
  bool cuts_left = false;                // texts that are too long lose their beginning
  bool pads_left = false;
  // Tokens with a meaning, by its name: bos, eos, pad, unk, mask, cls, sep.
  absl::flat_hash_map<std::string, uint32_t> special;
};

struct EncodedText {
  std::vector<int64_t> ids;
  // The bytes of the text, widened to whole characters, that each token stands for; tokens of prefix and suffix have
  // empty spans at the text's ends. Only if asked for.
  std::vector<TextSpan> spans;
};

struct EncodeOptions {
  bool add_special_tokens = true;
  bool spans = false;
  size_t max_length = 0;  // tokens, with the special ones; 0: no limit
};

// Threads: any number at a time. Each thread that encodes at the same time as others has about 7 MiB of its own.
class TextTokenizer {
 public:
  static constexpr size_t kMaxText = size_t{1} << 30;
  // kInvalidArgument: two added tokens have the same text, or one that is the model's has another number.
  static absl::StatusOr<std::unique_ptr<TextTokenizer>> Create(TokenizerParts parts);

  uint32_t vocab_size() const { return static_cast<uint32_t>(texts_.size()); }
  std::optional<uint32_t> Find(absl::string_view token) const;
  // Returns the token as its file has it, but tokens of bytes as bytes.
  const std::string& text(uint32_t id) const { return texts_[id]; }
  const TokenizerParts& parts() const { return parts_; }

  // Bytes that are no UTF-8 count as U+FFFD. kInvalidArgument: the text has more than kMaxText bytes, or max_length has
  // no room for the special tokens.
  absl::StatusOr<EncodedText> Encode(absl::string_view text, const EncodeOptions& options = {}) const;
  // Ids outside of the vocabulary are left out.
  std::string Decode(absl::Span<const int64_t> ids, bool skip_special_tokens = true) const;

  // For measurements: the ids alone, without special tokens, of valid UTF-8 into a list that is used again.
  void EncodeInto(absl::string_view text, TokenList& out) const;

 private:
  explicit TextTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {}
  absl::Status Prepare();
  std::unique_ptr<ModelScratch> TakeScratch() const;
  void ReturnScratch(std::unique_ptr<ModelScratch> scratch) const;
  void EncodeText(absl::string_view text, bool tracks, TokenList& out, ModelScratch& scratch) const;
  void EncodeSection(AlignedText section, TokenList& out, ModelScratch& scratch) const;
  void EncodePart(AlignedText part, TokenList& out, ModelScratch& scratch) const;
  void TrimSpan(TextSpan& span, absl::string_view token, bool is_first) const;
  void TrimAdded(TextSpan& span, absl::string_view text, bool is_first) const;

  TokenizerParts parts_;
  std::vector<std::string> texts_;
  std::vector<bool> is_special_;
  AddedTokenFinder plain_, normalized_;
  mutable absl::Mutex mutex_;
  mutable std::vector<std::unique_ptr<ModelScratch>> scratches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
