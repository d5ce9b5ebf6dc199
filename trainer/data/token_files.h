// Tokens in files, mapped into memory: a language-model dataset that costs no time to open and no memory to hold.
// Sample i of T tokens has tokens [i*T, i*T + T) of a file as inputs, and those shifted by one as targets; no sample
// crosses from one file to the next. Formats: data/text/token_file.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/token_file.h"
#include "trainer/core/dataset.h"

namespace composer {

struct TokenFilesOptions {
  std::vector<std::string> paths;       // files, folders or globs
  int64_t max_seq_len = 1024;           // T, at least 1
  TokenType type = TokenType::kUint16;  // of raw files; .npy and .idx files say their own
  int64_t vocab_size = 0;               // if above 0, every token is checked to be below it when the files are opened
};

// Yields inputs and targets int64 [B, T] and num_tokens = B*T. WillLoad asks the kernel to read ahead. Returns
// kInvalidArgument naming file and cause: no full sample, a damaged header, a token outside of the vocabulary.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenTokenFiles(const TokenFilesOptions& options);

}  // namespace composer
