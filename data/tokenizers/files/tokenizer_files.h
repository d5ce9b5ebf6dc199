// Tokenizers from the files in which they are published. All of it is checked; messages name the field.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/tokenizers/split/gpt_pattern.h"
#include "data/tokenizers/text_tokenizer.h"

namespace composer {

inline constexpr int64_t kMaxTokenizerFile = int64_t{256} << 20;  // bytes

// tokenizer.json of the library `tokenizers`. `truncation` and `padding` only say on which side, and with which token:
// how long a text may be is the caller's matter.
absl::StatusOr<TokenizerParts> ParseTokenizerJson(absl::string_view text);

// A line for each token of WordPiece; normalised and cut as BERT does it.
absl::StatusOr<TokenizerParts> ParseVocabTxt(absl::string_view text, bool lowercase);

// GPT-2's vocab.json (encoder.json) and merges.txt (vocab.bpe).
absl::StatusOr<TokenizerParts> ParseGpt2Files(absl::string_view vocab_json, absl::string_view merges_txt);

// CLIP's vocab.json and merges.txt, as transformers' CLIPTokenizerFast makes a tokenizer of them. `pad`, if not "", is
// a token of the vocabulary that is found in texts, too, as Stable Diffusion 2's is ("!").
absl::StatusOr<TokenizerParts> ParseClipFiles(absl::string_view vocab_json, absl::string_view merges_txt,
                                              const std::string& pad);

// tiktoken's lines of a token in base64 and its rank. `special` tokens follow behind the largest rank, in this order.
absl::StatusOr<TokenizerParts> ParseTiktoken(absl::string_view text, GptPattern pattern,
                                             const std::vector<std::string>& special);

// A SentencePiece model (protocol buffer ModelProto): BPE or Unigram.
absl::StatusOr<TokenizerParts> ParseSentencePiece(absl::string_view bytes);

// Adds what tokenizer_config.json and special_tokens_map.json say about special tokens: bos_token, add_bos_token, …
absl::Status ApplyTokenizerConfig(absl::string_view json, TokenizerParts& parts);

struct OpenTokenizerOptions {
  GptPattern pattern = GptPattern::kCl100k;  // of a .tiktoken file
  std::vector<std::string> special;          // of a .tiktoken file
  bool lowercase = true;                     // of a vocab.txt without tokenizer_config.json
};
// `path` is a folder with tokenizer.json, tokenizer.model, vocab.txt, or vocab.json and merges.txt, in this order of
// preference, with tokenizer_config.json if it has one; or one of these files; or a .model or .tiktoken file.
absl::StatusOr<std::unique_ptr<TextTokenizer>> OpenTokenizer(const std::string& path,
                                                             const OpenTokenizerOptions& options = {});

}  // namespace composer
