// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/files/bpe_parts.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "data/tokenizers/files/byte_characters.h"

namespace composer {

void TokensToBytes(TokenNumbers& tokens) {
  for (auto& [token, id] : tokens) {
    if (auto bytes = BytesOfCharacters(token)) token = *std::move(bytes);
  }
}

absl::StatusOr<std::vector<BpeMerge>> MergesByNumber(const Vocabulary& vocabulary,
                                                     const std::vector<std::pair<std::string, std::string>>& merges,
                                                     bool of_bytes, const std::string& continuing_prefix) {
  std::vector<BpeMerge> numbers;
  for (const auto& [left_text, right_text] : merges) {
    std::string left = left_text, right = right_text;
    if (of_bytes) {
      left = BytesOfCharacters(left_text).value_or(left_text);
      right = BytesOfCharacters(right_text).value_or(right_text);
    }
    const auto l = vocabulary.Find(left), r = vocabulary.Find(right);
    const bool drops = !continuing_prefix.empty() && absl::StartsWith(right, continuing_prefix);
    const auto merged = vocabulary.Find(absl::StrCat(left, drops ? right.substr(continuing_prefix.size()) : right));
    if (!l || !r || !merged)
      return absl::InvalidArgumentError(absl::StrCat("merges[", numbers.size(), "]: `", left_text.substr(0, 100), " ",
                                                     right_text.substr(0, 100),
                                                     "`: a part or the whole is not in the vocabulary"));
    numbers.push_back({*l, *r, static_cast<uint32_t>(numbers.size()), *merged});
  }
  return numbers;
}

}  // namespace composer
