// The step of a tokenizer that cuts a text into pieces, each of which the model turns into tokens by itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/text/aligned_text.h"

namespace composer {

struct SplitText {
  AlignedText text;
  // Of text.view(), in order, without overlap; what lies between them is dropped.
  std::vector<TextSpan> pieces;
};

// Threads: any number at a time.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void Apply(SplitText& split) const = 0;
};
using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

// One that only cuts.
class PieceSplitter : public PreTokenizer {
 public:
  void Apply(SplitText& split) const final;

 protected:
  // Appends the parts of `piece`, whose first byte has the number `at`.
  virtual void Cut(absl::string_view piece, uint32_t at, std::vector<TextSpan>& parts) const = 0;
};

}  // namespace composer
