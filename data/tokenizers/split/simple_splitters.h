// The pre-tokenizers of tokenizer.json that are not patterns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/tokenizers/split/pre_tokenizer.h"

namespace composer {

// BERT's: words between spaces, and each punctuation mark by itself.
PreTokenizerPtr MakeBertSplitter();

enum class PrependScheme { kAlways, kFirst, kNever };
// Spaces become `mark` (U+2581), which also goes before a text that does not begin with it: always, or only where the
// whole text begins. With `cuts`, a piece begins at each mark.
PreTokenizerPtr MakeMetaspace(std::string mark, PrependScheme scheme, bool cuts);

// A space goes before a text that does not begin with one.
PreTokenizerPtr MakePrefixSpace();

// Cuts before each `mark` that follows something else.
PreTokenizerPtr MakeCutBefore(std::string mark);

PreTokenizerPtr MakeSequence(std::vector<PreTokenizerPtr> parts);

}  // namespace composer
