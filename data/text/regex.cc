// SPDX-License-Identifier: Apache-2.0
#include "data/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

// What a thread needs to match, kept for its next match.
struct MatchData {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  ~MatchData() { pcre2_match_data_free(data); }
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Regex>> Regex::Compile(const std::string& pattern) {
  if (pattern.size() > 16384) return absl::InvalidArgumentError("the regular expression is longer than 16 KiB");
  if (absl::StrContains(pattern, "&&["))
    return absl::InvalidArgumentError(
        absl::StrCat("regular expression ", pattern, ": intersections of classes (&&) are not supported"));
  int error = 0;
  PCRE2_SIZE where = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &where, nullptr);
  if (code == nullptr) {
    char message[256] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof(message));
    return absl::InvalidArgumentError(absl::StrCat("regular expression ", pattern, ": ", message, " at ", where));
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it matching is slower, and right
  return std::shared_ptr<const Regex>(new Regex(code));
}

Regex::~Regex() { pcre2_code_free(static_cast<pcre2_code*>(code_)); }

std::optional<TextSpan> Regex::Find(absl::string_view text, size_t from) const {
  thread_local MatchData match;
  const int found = pcre2_match(static_cast<const pcre2_code*>(code_), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                text.size(), from, PCRE2_NO_UTF_CHECK, match.data, nullptr);
  if (found < 0) return std::nullopt;
  const PCRE2_SIZE* at = pcre2_get_ovector_pointer(match.data);
  return TextSpan{static_cast<uint32_t>(at[0]), static_cast<uint32_t>(at[1])};
}

}  // namespace composer
