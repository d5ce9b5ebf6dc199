// Tokens in a mapped file: raw little-endian integers, NumPy's .npy, or Megatron's x.bin and x.idx, which has the type.
// Source: nanoGPT's prepare.py; numpy.lib.format; Megatron-LM, megatron/core/datasets/indexed_dataset.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/mapped_file.h"

namespace composer {

enum class TokenType { kUint8, kUint16, kInt32, kUint32, kInt64 };
size_t BytesOf(TokenType type);
// Copies `count` tokens.
void CopyTokens(TokenType type, const char* from, int64_t count, int64_t* to);

struct TokenFile {
  std::string path;
  std::shared_ptr<const MappedFile> file;
  TokenType type = TokenType::kUint16;
  absl::string_view tokens;  // bytes

  int64_t size() const { return static_cast<int64_t>(tokens.size() / BytesOf(type)); }
};

// `type` is that of a raw file without an index. kInvalidArgument names the file and what is wrong with it. Of
// Megatron's sequences only the type is used: their tokens follow each other in the file.
absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path, TokenType type);
// kInvalidArgument names the first token that is not in [0, vocab_size).
absl::Status CheckVocabulary(const TokenFile& file, int64_t vocab_size);

// What an .idx file says.
struct MegatronIndex {
  TokenType type = TokenType::kInt32;
  int64_t sequences = 0;
  int64_t tokens = 0;  // of all sequences, which lie one after the other from the beginning of the .bin file
};
// Checks the whole index: sequences that are not one after the other, or a size that does not fit, are
// kInvalidArgument.
absl::StatusOr<MegatronIndex> ReadMegatronIndex(absl::string_view file);

}  // namespace composer
