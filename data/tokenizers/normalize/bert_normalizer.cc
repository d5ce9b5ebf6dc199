// SPDX-License-Identifier: Apache-2.0
#include <unicode/unorm2.h>

#include <array>
#include <string>

#include "data/text/characters.h"
#include "data/tokenizers/normalize/unicode_form.h"

namespace composer {
namespace {

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options) : options_(options) {
    UErrorCode error = U_ZERO_ERROR;
    decompose_ = unorm2_getNFDInstance(&error);
    for (int i = 0; i < 256; ++i) {
      const auto c = static_cast<char>(i);
      const bool is_space = (c >= 9 && c <= 13) || c == ' ';
      const bool is_control = options.clean_text && ((c >= 0 && c < ' ' && c != 9 && c != 10 && c != 13) || c == 127);
      kind_[static_cast<size_t>(i)] = i >= 128 ? kOther : is_control ? kDropped : kMapped;
      map_[static_cast<size_t>(i)] = options.clean_text && is_space              ? ' '
                                     : options.lowercase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32)
                                                                                 : c;
    }
  }
  void Apply(AlignedText& text) const override {
    TextRewriter out(text);
    const absl::string_view from = out.from();
    for (size_t at = 0; at < from.size();) {
      size_t end = at;
      while (end < from.size() && kind_[static_cast<unsigned char>(from[end])] == kMapped) ++end;
      if (end > at) out.KeepMapped(at, end, map_.data());
      if (end == from.size()) break;
      at = end + 1;
      if (kind_[static_cast<unsigned char>(from[end])] == kDropped) continue;
      const CodePoint c = CodePointAt(from, end);
      PutCharacter(out, c.value, end);
      at = end + c.length;
    }
    out.Finish();
  }

 private:
  enum Kind : uint8_t { kMapped, kDropped, kOther };

  void PutCharacter(TextRewriter& out, char32_t c, size_t at) const {
    const uint16_t properties = table_[c];
    if (options_.clean_text) {
      if (c == 0xfffd || (properties & char_is::kControl) != 0) return;
      if ((properties & char_is::kSpace) != 0) return out.Put(" ", at);
    }
    std::string bytes;
    const bool is_ideograph = options_.handle_chinese_chars && (properties & char_is::kIdeograph) != 0;
    if (is_ideograph) bytes = " ";
    UChar parts[32];
    UErrorCode error = U_ZERO_ERROR;
    const int32_t count =
        options_.strip_accents ? unorm2_getDecomposition(decompose_, static_cast<UChar32>(c), parts, 32, &error) : -1;
    if (count < 0 || U_FAILURE(error)) {
      Append(c, bytes);
    } else {
      for (int32_t i = 0; i < count;) {
        UChar32 part = 0;
        U16_NEXT(parts, i, count, part);
        Append(static_cast<char32_t>(part), bytes);
      }
    }
    if (is_ideograph) bytes += ' ';
    out.Put(bytes, at);
  }
  void Append(char32_t c, std::string& bytes) const {
    if (options_.strip_accents && (table_[c] & char_is::kNonspacing) != 0) return;
    if (options_.lowercase) {
      AppendLower(c, bytes);
    } else {
      AppendUtf8(c, bytes);
    }
  }

  const BertNormalizerOptions options_;
  const CharTable& table_ = CharTable::Get();
  const UNormalizer2* decompose_ = nullptr;
  std::array<Kind, 256> kind_{};
  std::array<char, 256> map_{};
};

}  // namespace

NormalizerPtr MakeBertNormalizer(const BertNormalizerOptions& options) {
  return std::make_unique<BertNormalizer>(options);
}

}  // namespace composer
