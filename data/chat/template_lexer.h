// Cuts a template of Jinja into texts and tags, with the spaces around tags removed as transformers has it
// (trim_blocks, lstrip_blocks), and the inside of a tag into words. Comments and spaces are gone afterwards.
// Source: Jinja 3.1, lexer.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct TemplateWord {
  enum class Kind { kName, kText, kInt, kFloat, kSign, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;  // of kText: its value, without quotes
};

struct TemplatePiece {
  enum class Kind { kText, kOutput, kStatement };  // text, {{ … }}, {% … %}
  Kind kind = Kind::kText;
  std::string text;                 // of kText
  std::vector<TemplateWord> words;  // of the others; ends with kEnd
  int64_t line = 1;                 // for messages
};

// kInvalidArgument names the line of a tag without an end, or of a character that no tag may have. Linear in time.
absl::StatusOr<std::vector<TemplatePiece>> CutTemplate(absl::string_view text);

}  // namespace composer
