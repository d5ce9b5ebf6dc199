// Which token has which number. Numbers may have gaps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

class Vocabulary {
 public:
  static constexpr uint32_t kMaxTokens = 1 << 24;
  // kInvalidArgument: a number is beyond kMaxTokens, or two tokens have the same one.
  static absl::StatusOr<Vocabulary> Create(std::vector<std::pair<std::string, uint32_t>> tokens);

  // The largest number + 1.
  uint32_t size() const { return static_cast<uint32_t>(tokens_.size()); }
  // Of a number without a token the text is empty.
  const std::string& token(uint32_t id) const { return tokens_[id]; }
  std::optional<uint32_t> Find(absl::string_view token) const {
    const auto it = ids_.find(token);
    return it == ids_.end() ? std::nullopt : std::optional<uint32_t>(it->second);
  }

 private:
  std::vector<std::string> tokens_;
  absl::flat_hash_map<std::string, uint32_t> ids_;
};

}  // namespace composer
