// The tokenizers of published models, read from their files: tokenizer.json, vocab.txt, vocab.json with merges.txt, a
// SentencePiece model, or tiktoken's ranks (data/tokenizers/files/tokenizer_files.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/core/tokenizer.h"

namespace composer {

class TextTokenizer;

struct FileTokenizerOptions {
  std::string path;                  // a folder, or one of the files
  std::string pattern = "cl100k";    // of a .tiktoken file: gpt2, cl100k, qwen2 or o200k
  std::vector<std::string> special;  // of a .tiktoken file: tokens that follow behind the largest rank
  std::vector<std::pair<std::string, std::string>>
      roles;  // such as {"eos", "<|im_end|>"}: in place of what the files say
};

// Throws StatusError, with the file and the field, when a file is missing or not supported.
class FileTokenizer final : public Tokenizer {
 public:
  explicit FileTokenizer(const FileTokenizerOptions& options);
  ~FileTokenizer() override;
  std::string name() const override { return name_; }
  int64_t vocab_size() const override;
  const SpecialTokens& special_tokens() const override { return special_; }
  Encoding Encode(absl::string_view text, bool add_special_tokens = true) const override;
  std::string Decode(absl::Span<const int64_t> tokens, bool skip_special_tokens = true) const override;
  // Returns the tokenizer's files in the folder, or the one file that it was read from, as they are now. Throws
  // StatusError when one cannot be read.
  std::vector<std::pair<std::string, std::string>> Files() const override;

 private:
  std::string name_;  // the path
  std::unique_ptr<const TextTokenizer> tokenizer_;
  SpecialTokens special_;
};

}  // namespace composer
