// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/split/pre_tokenizer.h"

#include <utility>

namespace composer {

void PieceSplitter::Apply(SplitText& split) const {
  std::vector<TextSpan> parts;
  parts.reserve(split.text.view().size() / 4 + 8);
  for (const TextSpan piece : split.pieces)
    Cut(split.text.view().substr(piece.begin, piece.end - piece.begin), piece.begin, parts);
  split.pieces = std::move(parts);
}

}  // namespace composer
