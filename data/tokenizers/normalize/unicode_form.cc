// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/normalize/unicode_form.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "data/text/characters.h"

namespace composer {
namespace {

const UNormalizer2* InstanceOf(UnicodeForm form) {
  UErrorCode error = U_ZERO_ERROR;
  switch (form) {
    case UnicodeForm::kNfc:
      return unorm2_getNFCInstance(&error);
    case UnicodeForm::kNfd:
      return unorm2_getNFDInstance(&error);
    case UnicodeForm::kNfkc:
      return unorm2_getNFKCInstance(&error);
    case UnicodeForm::kNfkd:
      return unorm2_getNFKDInstance(&error);
  }
  return nullptr;
}

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::u16string ToUtf16(absl::string_view text) {
  std::u16string wide(text.size(), u'\0');
  int32_t length = 0;
  UErrorCode error = U_ZERO_ERROR;
  u_strFromUTF8(wide.data(), static_cast<int32_t>(wide.size()), &length, text.data(), static_cast<int32_t>(text.size()),
                &error);
  wide.resize(U_SUCCESS(error) ? static_cast<size_t>(length) : 0);
  return wide;
}

// Returns the code points that the normaliser makes of this text.
std::vector<char32_t> Normalized(const UNormalizer2* normalizer, absl::string_view text) {
  const std::u16string wide = ToUtf16(text);
  std::u16string made(wide.size() * 18 + 18, u'\0');  // no form makes more than 18 of one
  UErrorCode error = U_ZERO_ERROR;
  const int32_t length = unorm2_normalize(normalizer, wide.data(), static_cast<int32_t>(wide.size()), made.data(),
                                          static_cast<int32_t>(made.size()), &error);
  std::vector<char32_t> points;
  for (int32_t i = 0; U_SUCCESS(error) && i < length;) {
    UChar32 c = 0;
    U16_NEXT(made.data(), i, length, c);
    points.push_back(static_cast<char32_t>(c));
  }
  return points;
}

class FormNormalizer final : public Normalizer {
 public:
  explicit FormNormalizer(UnicodeForm form) : normalizer_(InstanceOf(form)) {}
  void Apply(AlignedText& text) const override {
    if (IsAscii(text.view()) || IsNormal(text.view())) return;
    TextRewriter out(text);
    for (size_t begin = 0; begin < out.from().size();) {
      const size_t end = SegmentEnd(out.from(), begin);
      Rewrite(out, begin, end);
      begin = end;
    }
    out.Finish();
  }

 private:
  bool IsNormal(absl::string_view text) const {
    const std::u16string wide = ToUtf16(text);
    UErrorCode error = U_ZERO_ERROR;
    const auto size = static_cast<int32_t>(wide.size());
    return unorm2_spanQuickCheckYes(normalizer_, wide.data(), size, &error) == size && U_SUCCESS(error);
  }
  // Returns where the text can be cut behind `begin` without changing what becomes of it.
  size_t SegmentEnd(absl::string_view text, size_t begin) const {
    size_t end = begin + CodePointAt(text, begin).length;
    while (end < text.size()) {
      const CodePoint c = CodePointAt(text, end);
      if (unorm2_hasBoundaryBefore(normalizer_, static_cast<UChar32>(c.value))) break;
      end += c.length;
    }
    return end;
  }
  void Rewrite(TextRewriter& out, size_t begin, size_t end) const {
    const absl::string_view segment = out.from().substr(begin, end - begin);
    if (segment.size() == 1) return out.Keep(begin, end);
    size_t at = begin;
    std::string bytes;
    for (const char32_t point : Normalized(normalizer_, segment)) {
      bytes.clear();
      AppendUtf8(point, bytes);
      out.Put(bytes, at);
      const size_t next = at + CodePointAt(out.from(), at).length;
      if (next < end) at = next;
    }
  }

  const UNormalizer2* const normalizer_;
};

// Calls change(out, code point, where) for each character.
template <typename Change>
class CharacterNormalizer final : public Normalizer {
 public:
  explicit CharacterNormalizer(Change change) : change_(change) {}
  void Apply(AlignedText& text) const override {
    TextRewriter out(text);
    for (size_t at = 0; at < out.from().size();) {
      const CodePoint c = CodePointAt(out.from(), at);
      change_(out, c.value, at, at + c.length);
      at += c.length;
    }
    out.Finish();
  }

 private:
  const Change change_;
};

template <typename Change>
NormalizerPtr ForEachCharacter(Change change) {
  return std::make_unique<CharacterNormalizer<Change>>(change);
}

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void Apply(AlignedText& text) const override {
    const CharTable& table = CharTable::Get();
    TextRewriter out(text);
    size_t begin = 0, end = out.from().size();
    while (right_ && end > 0) {
      const CodePoint c = CodePointBefore(out.from(), end);
      if ((table[c.value] & char_is::kSpace) == 0) break;
      end -= c.length;
    }
    while (left_ && begin < end) {
      const CodePoint c = CodePointAt(out.from(), begin);
      if ((table[c.value] & char_is::kSpace) == 0) break;
      begin += c.length;
    }
    out.Keep(begin, end);
    out.Finish();
  }

 private:
  const bool left_, right_;
};

}  // namespace

NormalizerPtr MakeUnicodeForm(UnicodeForm form) { return std::make_unique<FormNormalizer>(form); }

void AppendLower(char32_t c, std::string& text) {
  if (c == 0x130) {
    text += "i\xcc\x87";
  } else {
    AppendUtf8(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), text);
  }
}

NormalizerPtr MakeLowercase() {
  return ForEachCharacter([](TextRewriter& out, char32_t c, size_t at, size_t) {
    std::string lower;
    AppendLower(c, lower);
    out.Put(lower, at);
  });
}

NormalizerPtr MakeStripAccents() {
  return ForEachCharacter([](TextRewriter& out, char32_t c, size_t at, size_t end) {
    if ((CharTable::Get()[c] & char_is::kMark) == 0) out.Keep(at, end);
  });
}

NormalizerPtr MakeStrip(bool left, bool right) { return std::make_unique<Strip>(left, right); }

NormalizerPtr MakeNmt() {
  return ForEachCharacter([](TextRewriter& out, char32_t c, size_t at, size_t end) {
    const bool drops = (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
    if (drops) return;
    const bool is_space = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                          c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
    if (is_space) return out.Put(" ", at);
    out.Keep(at, end);
  });
}

}  // namespace composer
