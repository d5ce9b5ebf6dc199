// Regular expressions over UTF-8, with look-ahead and Unicode properties: PCRE2 with its compiler. For the patterns of
// tokenizers that data/tokenizers/split does not know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/aligned_text.h"

namespace composer {

// Threads: any number may match at a time.
class Regex {
 public:
  // kInvalidArgument: the pattern has an error, is longer than 16 KiB, or means something else to PCRE2 than to
  // Oniguruma, which tokenizer.json's patterns are written for (`&&` in a class).
  static absl::StatusOr<std::shared_ptr<const Regex>> Compile(const std::string& pattern);
  ~Regex();
  // Returns the first match at or after byte `from` of valid UTF-8. Nothing when a pattern
  // backtracks beyond PCRE2's limits.
  std::optional<TextSpan> Find(absl::string_view text, size_t from) const;

 private:
  explicit Regex(void* code) : code_(code) {}
  void* const code_;
};

}  // namespace composer
