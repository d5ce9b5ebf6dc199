// Normalisers that replace text by text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/tokenizers/normalize/normalizer.h"

namespace composer {

// Appends the matches in a text, in order, without overlap; none is empty.
using TextFinder = std::function<void(absl::string_view text, std::vector<TextSpan>& matches)>;

// What replaces a match stands for the match's last character.
NormalizerPtr MakeReplace(TextFinder find, std::string content);
// Before a text that is not empty; it stands for the text's first character.
NormalizerPtr MakePrepend(std::string prefix);
NormalizerPtr MakeNormalizerSequence(std::vector<NormalizerPtr> parts);

}  // namespace composer
