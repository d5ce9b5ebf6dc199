// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/normalize/charsmap.h"

#include <unicode/ubrk.h>
#include <unicode/utext.h>

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "data/text/characters.h"

namespace composer {
namespace {

constexpr absl::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(std::shared_ptr<const Charsmap> map) : map_(std::move(map)) {}
  void Apply(AlignedText& text) const override {
    TextRewriter out(text);
    const absl::string_view from = out.from();
    UErrorCode error = U_ZERO_ERROR;
    UText* utext = utext_openUTF8(nullptr, from.data(), static_cast<int64_t>(from.size()), &error);
    UBreakIterator* graphemes = ubrk_open(UBRK_CHARACTER, "", nullptr, 0, &error);
    if (U_SUCCESS(error)) ubrk_setUText(graphemes, utext, &error);
    for (int32_t at = 0; U_SUCCESS(error) && static_cast<size_t>(at) < from.size();) {
      const int32_t end = ubrk_next(graphemes);
      if (end == UBRK_DONE) break;
      Rewrite(out, static_cast<size_t>(at), static_cast<size_t>(end));
      at = end;
    }
    ubrk_close(graphemes);
    utext_close(utext);
    out.Finish();
  }

 private:
  void Rewrite(TextRewriter& out, size_t begin, size_t end) const {
    if (end - begin < 6) {
      const Charsmap::Match match = map_->Find(out.from().substr(begin, end - begin), false);
      if (match.length > 0) return out.Put(match.replacement, begin);
    }
    for (size_t at = begin; at < end;) {
      const size_t next = at + CodePointAt(out.from(), at).length;
      const Charsmap::Match match = map_->Find(out.from().substr(at, next - at), false);
      if (match.length > 0) {
        out.Put(match.replacement, at);
      } else {
        out.Keep(at, next);
      }
      at = next;
    }
  }
  const std::shared_ptr<const Charsmap> map_;
};

class SentencePieceNormalizer final : public Normalizer {
 public:
  explicit SentencePieceNormalizer(SentencePieceRules rules) : rules_(std::move(rules)) {
    std::vector<std::pair<absl::string_view, int32_t>> keys;
    for (const std::string& symbol : rules_.symbols) keys.emplace_back(symbol, 0);
    symbols_ = DoubleArray(std::move(keys));
  }

  void Apply(AlignedText& text) const override {
    TextRewriter out(text);
    const absl::string_view from = out.from();
    size_t at = 0;
    while (rules_.remove_extra_whitespaces && at < from.size()) {
      const Charsmap::Match match = MatchAt(from.substr(at));
      if (match.replacement != " ") break;
      at += match.length;
    }
    if (at < from.size() && rules_.add_dummy_prefix) out.Put(kSpaceMark, at);
    bool after_space = rules_.remove_extra_whitespaces;
    while (at < from.size()) {
      const Charsmap::Match match = MatchAt(from.substr(at));
      absl::string_view with = match.replacement;
      while (after_space && absl::ConsumePrefix(&with, " ")) {
      }
      if (!with.empty()) {
        PutEscaped(out, with, at);
        after_space = rules_.remove_extra_whitespaces && with.back() == ' ';
      }
      at += match.length;
    }
    while (rules_.remove_extra_whitespaces && absl::EndsWith(out.written(), kSpaceMark))
      out.DropLast(kSpaceMark.size());
    out.Finish();
  }

 private:
  // Returns what the text begins with: a symbol, an entry or a character.
  Charsmap::Match MatchAt(absl::string_view text) const {
    size_t symbol = 0;
    uint32_t node = DoubleArray::kRoot;
    for (size_t i = 0; i < text.size() && symbols_.Step(node, text[i]); ++i) {
      if (symbols_.value(node) >= 0) symbol = i + 1;
    }
    if (symbol > 0) return {symbol, text.substr(0, symbol)};
    const Charsmap::Match match = rules_.map->Find(text, true);
    if (match.length > 0) return match;
    const size_t length = CodePointAt(text, 0).length;
    return {length, text.substr(0, length)};
  }
  static void PutEscaped(TextRewriter& out, absl::string_view with, size_t at) {
    for (size_t i = 0; i < with.size();) {
      const size_t length = CodePointAt(with, i).length;
      out.Put(with[i] == ' ' ? kSpaceMark : with.substr(i, length), at);
      i += length;
    }
  }
  const SentencePieceRules rules_;
  DoubleArray symbols_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Charsmap>> Charsmap::Parse(absl::string_view bytes) {
  auto map = std::make_shared<Charsmap>();
  if (bytes.empty()) return map;
  uint32_t size = 0;
  if (bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
  if (bytes.size() < 4 || size % 4 != 0 || size > bytes.size() - 4)
    return absl::InvalidArgumentError("precompiled_charsmap: is cut off");
  map->units_.resize(size / 4);
  std::memcpy(map->units_.data(), bytes.data() + 4, size);
  map->replacements_ = std::string(bytes.substr(4 + size));
  return map;
}

Charsmap::Match Charsmap::Find(absl::string_view text, bool longest) const {
  Match found{0, {}};
  const auto offset_of = [](uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); };
  if (units_.empty()) return found;
  size_t place = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    place ^= byte;
    if (byte == 0 || place >= units_.size()) return found;
    const uint32_t unit = units_[place];
    if ((unit & 0x800000ffU) != byte) return found;
    place ^= offset_of(unit);
    if ((unit >> 8 & 1) == 0 || place >= units_.size()) continue;
    const uint32_t at = units_[place] & 0x7fffffffU;
    if (at >= replacements_.size()) continue;
    found = {i + 1, absl::string_view(replacements_.c_str() + at)};
    if (!longest) return found;
  }
  return found;
}

NormalizerPtr MakePrecompiled(std::shared_ptr<const Charsmap> map) {
  return std::make_unique<Precompiled>(std::move(map));
}
NormalizerPtr MakeSentencePieceNormalizer(SentencePieceRules rules) {
  return std::make_unique<SentencePieceNormalizer>(std::move(rules));
}

}  // namespace composer
