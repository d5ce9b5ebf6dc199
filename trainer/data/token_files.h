// Tokens in files, mapped into memory: a language-model dataset that costs no time to open and no memory to hold.
// Sample i of T tokens has tokens [i*T, i*T + T) of a file as inputs, and those shifted by one as targets; no sample
// crosses from one file to the next. Formats: raw little-endian integers (.bin), and one-dimensional arrays of NumPy
// (.npy, format versions 1 to 3). Source: nanoGPT's and Megatron's .bin files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/core/dataset.h"

namespace composer {

enum class TokenType { kUint8, kUint16, kInt32, kUint32, kInt64 };

struct TokenFilesOptions {
  std::vector<std::string> paths;       // files, folders or globs
  int64_t max_seq_len = 1024;           // T, at least 1
  TokenType type = TokenType::kUint16;  // of .bin files; .npy files say their own
  int64_t vocab_size = 0;               // if above 0, every token is checked to be below it when the files are opened
};

// Yields inputs and targets int64 [B, T] and num_tokens = B*T. WillLoad asks the kernel to read ahead. Returns
// kInvalidArgument naming file and cause: no full sample, a damaged header, a token outside of the vocabulary.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenTokenFiles(const TokenFilesOptions& options);

// Where the numbers of a .npy file are.
struct NpyArray {
  TokenType type = TokenType::kInt64;
  std::vector<int64_t> shape;
  size_t begin = 0;  // byte
};
// Reads the header of a .npy file of integers. kInvalidArgument for everything else: other types, Fortran order, big
// endian, a shape that the file is too short for.
absl::StatusOr<NpyArray> ReadNpyHeader(absl::string_view file);

}  // namespace composer
