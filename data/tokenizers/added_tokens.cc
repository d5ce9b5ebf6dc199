// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/added_tokens.h"

#include <algorithm>
#include <functional>

#include "data/text/characters.h"

namespace composer {
namespace {

bool EndsWithWord(absl::string_view text) {
  return !text.empty() && (CharTable::Get()[CodePointBefore(text, text.size()).value] & char_is::kWord) != 0;
}

bool BeginsWithWord(absl::string_view text) {
  return !text.empty() && (CharTable::Get()[CodePointAt(text, 0).value] & char_is::kWord) != 0;
}

bool IsSpace(CodePoint c) { return (CharTable::Get()[c.value] & char_is::kSpace) != 0; }

}  // namespace

void AddedTokenFinder::Add(absl::string_view text, const AddedToken* token) {
  if (text.empty()) return;
  tokens_[text] = token;
  std::vector<size_t>& lengths = lengths_[static_cast<unsigned char>(text[0])];
  if (lengths.empty()) first_bytes_.push_back(text[0]);
  if (std::find(lengths.begin(), lengths.end(), text.size()) == lengths.end()) lengths.push_back(text.size());
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
}

size_t AddedTokenFinder::NextFirstByte(absl::string_view text, size_t at) const {
  if (first_bytes_.size() == 1) return std::min(text.find(first_bytes_[0], at), text.size());
  while (at < text.size() && lengths_[static_cast<unsigned char>(text[at])].empty()) ++at;
  return at;
}

const AddedToken* AddedTokenFinder::LongestAt(absl::string_view text, size_t at, size_t& length) const {
  for (const size_t size : lengths_[static_cast<unsigned char>(text[at])]) {
    if (size > text.size() - at) continue;
    const auto found = tokens_.find(text.substr(at, size));
    if (found == tokens_.end()) continue;
    length = size;
    return found->second;
  }
  return nullptr;
}

void AddedTokenFinder::Split(absl::string_view text, absl::FunctionRef<void(TextSpan, const AddedToken*)> use) const {
  size_t done = 0;
  const auto give = [&](size_t begin, size_t end, const AddedToken* token) {
    if (begin < end) use({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, token);
  };
  for (size_t at = 0; !tokens_.empty();) {
    at = NextFirstByte(text, at);
    if (at >= text.size()) break;
    size_t length = 0;
    const AddedToken* const token = LongestAt(text, at, length);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + length;
    at = end;
    if (token->single_word && (EndsWithWord(text.substr(0, begin)) || BeginsWithWord(text.substr(end)))) continue;
    while (token->lstrip && begin > done && IsSpace(CodePointBefore(text, begin)))
      begin -= CodePointBefore(text, begin).length;
    while (token->rstrip && end < text.size() && IsSpace(CodePointAt(text, end))) end += CodePointAt(text, end).length;
    begin = std::max(begin, done);
    give(done, begin, nullptr);
    give(begin, end, token);
    done = std::max(done, end);
  }
  give(done, text.size(), nullptr);
}

}  // namespace composer
