// Vocabularies and merges of BPE as their files have them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "data/tokenizers/model/bpe.h"

namespace composer {

using TokenNumbers = std::vector<std::pair<std::string, uint32_t>>;

// Turns ByteLevel's characters into bytes; tokens with other characters stay.
void TokensToBytes(TokenNumbers& tokens);

// The rank is the place in the list. kInvalidArgument names a pair of which a part or the result is not a token.
// Without `of_bytes`, a right part loses `continuing_prefix` when it is merged.
absl::StatusOr<std::vector<BpeMerge>> MergesByNumber(const Vocabulary& vocabulary,
                                                     const std::vector<std::pair<std::string, std::string>>& merges,
                                                     bool of_bytes, const std::string& continuing_prefix);

}  // namespace composer
