// SPDX-License-Identifier: Apache-2.0
#include "data/text/aligned_text.h"

#include <algorithm>

namespace composer {
namespace {

bool ContinuesCharacter(absl::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

// Returns the whole characters around bytes [begin, end) of valid UTF-8.
TextSpan Widened(absl::string_view text, size_t begin, size_t end) {
  while (begin > 0 && ContinuesCharacter(text, begin)) --begin;
  while (ContinuesCharacter(text, end)) ++end;
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

}  // namespace

TextSpan AlignedText::OriginOf(uint32_t begin, uint32_t end) const {
  if (!is_owned_) {
    const TextSpan wide = Widened(source_, begin, end);
    return {at_ + wide.begin, at_ + wide.end};
  }
  if (origins_.empty()) return {};
  return {origins_[begin].begin, std::max(origins_[begin].begin, origins_[end - 1].end)};
}

AlignedText AlignedText::Slice(uint32_t begin, uint32_t end) const {
  AlignedText slice = *this;
  slice.begins_text_ = begins_text_ && begin == 0;
  if (is_owned_) {
    slice.owned_ = owned_.substr(begin, end - begin);
    if (!origins_.empty()) slice.origins_.assign(origins_.begin() + begin, origins_.begin() + end);
  } else {
    slice.source_ = source_.substr(begin, end - begin);
    slice.at_ = at_ + begin;
  }
  return slice;
}

void TextRewriter::KeepOrigins(size_t begin, size_t end) {
  if (text_.is_owned_) {
    origins_.insert(origins_.end(), text_.origins_.begin() + static_cast<ptrdiff_t>(begin),
                    text_.origins_.begin() + static_cast<ptrdiff_t>(end));
    return;
  }
  for (size_t i = begin; i < end;) {
    const TextSpan wide = Widened(from_, i, i + 1);
    const size_t stop = std::min<size_t>(end, wide.end);
    origins_.insert(origins_.end(), stop - i, {text_.at_ + wide.begin, text_.at_ + wide.end});
    i = stop;
  }
}

void TextRewriter::PutOrigins(size_t count, size_t at) {
  TextSpan span{text_.at_, text_.at_};
  if (at < from_.size()) span = text_.OriginOf(static_cast<uint32_t>(at), static_cast<uint32_t>(at + 1));
  origins_.insert(origins_.end(), count, span);
}

void TextRewriter::Finish() {
  text_.owned_ = std::move(next_);
  text_.origins_ = std::move(origins_);
  text_.begins_text_ = text_.begins_text_ && begins_text_;
  text_.is_owned_ = true;
}

}  // namespace composer
