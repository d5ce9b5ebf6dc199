// How tokens become text again: steps that each change a list of texts, which are joined in the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/text/aligned_text.h"

namespace composer {

using DecodeStep = std::function<void(std::vector<std::string>& texts)>;

// Tokens that begin with `prefix` go on a word, all others follow a space. `cleanup`: no spaces before punctuation and
// in English contractions.
DecodeStep DecodeWordPiece(std::string prefix, bool cleanup);
// `mark` is a space, but not in the first token if `drops_first`.
DecodeStep DecodeMetaspace(std::string mark, bool drops_first);
// Tokens <0x00> to <0xFF> are bytes; such as are no UTF-8 become U+FFFD each.
DecodeStep DecodeByteFallback();
// A token that is `token` is `text`.
DecodeStep DecodeOneToken(std::string token, std::string text);
DecodeStep DecodeFuse();
// Drops up to so many of `content` (a character) at the beginning and the end of each text.
DecodeStep DecodeStrip(std::string content, size_t left, size_t right);
DecodeStep DecodeReplace(std::function<void(absl::string_view, std::vector<TextSpan>&)> find, std::string content);
// `suffix` ends a word.
DecodeStep DecodeWordEnd(std::string suffix);
// A space between tokens, as tokenizers without a decoder have it.
DecodeStep DecodeSpaced();

}  // namespace composer
