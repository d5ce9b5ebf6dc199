// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/model/vocabulary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {

absl::StatusOr<Vocabulary> Vocabulary::Create(std::vector<std::pair<std::string, uint32_t>> tokens) {
  uint32_t size = 0;
  for (const auto& [token, id] : tokens) {
    if (id >= kMaxTokens)
      return absl::InvalidArgumentError(
          absl::StrCat("token `", token, "` has the number ", id, ", more than ", kMaxTokens));
    size = std::max(size, id + 1);
  }
  Vocabulary made;
  made.tokens_.resize(size);
  std::vector<bool> taken(size);
  made.ids_.reserve(tokens.size());
  for (auto& [token, id] : tokens) {
    if (taken[id])
      return absl::InvalidArgumentError(
          absl::StrCat("tokens `", made.tokens_[id], "` and `", token, "` have the same number, ", id));
    taken[id] = true;
    made.tokens_[id] = token;
    made.ids_.insert_or_assign(std::move(token), id);
  }
  return made;
}

}  // namespace composer
