// The step of a tokenizer that rewrites a text before it is cut into pieces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/text/aligned_text.h"

namespace composer {

// Threads: any number at a time. The text is valid UTF-8 before and after.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void Apply(AlignedText& text) const = 0;
};
using NormalizerPtr = std::unique_ptr<const Normalizer>;

}  // namespace composer
