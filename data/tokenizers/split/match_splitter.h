// Cuts a text at what matches: a character, a text or a regular expression; and what becomes of the matches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/text/aligned_text.h"
#include "data/tokenizers/split/pre_tokenizer.h"

namespace composer {

// As in tokenizers: a match is dropped, a piece of its own, the end of the piece before it, the beginning of the next
// one; kContiguous: matches that touch are one piece.
enum class MatchBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Appends the matches in a text, in order, without overlap; none is empty.
using MatchFinder = std::function<void(absl::string_view text, std::vector<TextSpan>& matches)>;

// `inverted`: what does not match takes the matches' part.
PreTokenizerPtr MakeMatchSplitter(MatchFinder find, MatchBehavior behavior, bool inverted = false);

// Finders of characters with one of these properties (char_is), of a text that is not empty, and of a Regex, whose
// empty matches do not count.
MatchFinder FindCharacters(uint16_t properties);
MatchFinder FindLiteral(std::string literal);
// Finds the longest of these texts.
MatchFinder FindLongest(const std::vector<std::string>& texts);
MatchFinder FindRegex(std::shared_ptr<const class Regex> regex);

// Finds \w+ and [^\w\s]+.
MatchFinder FindWordsAndSymbols();

}  // namespace composer
