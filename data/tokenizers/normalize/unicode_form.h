// Unicode's normalisation forms (ICU), lower case and accents.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/tokenizers/normalize/normalizer.h"

namespace composer {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };
// What is composed of several characters stands for the first of them, what comes of one for that one.
NormalizerPtr MakeUnicodeForm(UnicodeForm form);

// Appends the lower case of a character by itself: of U+0130 two, of all others one.
void AppendLower(char32_t c, std::string& text);
NormalizerPtr MakeLowercase();
// Drops all marks (M). Decompose first.
NormalizerPtr MakeStripAccents();
// Drops white space at the ends.
NormalizerPtr MakeStrip(bool left, bool right);
// Drops control characters and makes white space of every kind a space, as the normaliser Nmt.
NormalizerPtr MakeNmt();

struct BertNormalizerOptions {
  bool clean_text = true;            // drop control characters, make white space spaces
  bool handle_chinese_chars = true;  // spaces around ideographs
  bool strip_accents = true;         // decompose, then drop Mn
  bool lowercase = true;
};
NormalizerPtr MakeBertNormalizer(const BertNormalizerOptions& options);

}  // namespace composer
