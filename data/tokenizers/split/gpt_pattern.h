// The regular expressions of the GPT family by hand: what they match, without a regular expression engine.
//   gpt2     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   cl100k   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
//            \s*[\r\n]+|\s+(?!\S)|\s+; also Llama 3's. Qwen 2's has \p{N} in place of \p{N}{1,3}
//   o200k    as cl100k, but words are [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+
//            or [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]* with 's, … behind them,
//            and / may follow symbols as \r and \n do
// Each byte of a text belongs to one match.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/tokenizers/split/pre_tokenizer.h"

namespace composer {

enum class GptPattern { kGpt2, kCl100k, kQwen2, kO200k };

// Returns the pattern that is written so in tokenizer.json or in tiktoken.
std::optional<GptPattern> KnownPattern(absl::string_view regex);
// Returns the pattern gpt2, cl100k, qwen2 or o200k; kInvalidArgument names them.
absl::StatusOr<GptPattern> PatternOfName(absl::string_view name);

PreTokenizerPtr MakeGptSplitter(GptPattern pattern);

}  // namespace composer
