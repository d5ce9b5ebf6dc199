// The subset of Jinja that chat templates of published models use, as a tree: for (with a condition, over several
// names, break, continue), if, set (also of a namespace, and of a block), expressions with all of Jinja's operators,
// subscripts and slices, filters, tests, calls. Source: Jinja 3.1, parser.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Values of templates; value_t::discarded is Jinja's undefined.
using TemplateValue = nlohmann::ordered_json;

struct TemplateExpr {
  enum class Kind {
    kLiteral,  // value
    kName,     // text
    kList,     // parts
    kDict,     // parts: key, value, key, value, …
    kItem,     // parts[0][parts[1]]; x.y, too
    kSlice,    // parts[0][parts[1]:parts[2]:parts[3]], null where not given
    kCall,     // parts[0](parts[1…], named)
    kMethod,   // parts[0].text(parts[1…], named)
    kFilter,   // parts[0] | text(parts[1…], named)
    kTest,     // parts[0] is text(parts[1…])
    kUnary,    // text: not, -, +
    kBinary,   // text: or, and, +, -, ~, *, /, //, %, **
    kCompare,  // text: ==, !=, <, <=, >, >=, in
    kChoice    // parts[0] if parts[1] else parts[2], which may be null
  };
  Kind kind = Kind::kLiteral;
  std::string text;
  TemplateValue value;
  std::vector<std::unique_ptr<TemplateExpr>> parts;
  std::vector<std::pair<std::string, std::unique_ptr<TemplateExpr>>> named;
  int64_t line = 1;
};

struct TemplateStatement;
using TemplateBlock = std::vector<TemplateStatement>;

struct TemplateStatement {
  enum class Kind { kText, kOutput, kIf, kFor, kSet, kBreak, kContinue };
  Kind kind = Kind::kText;
  std::string text;                // kText; kSet: the name, of a namespace's field that of the namespace
  std::string field;               // kSet: of a namespace
  std::vector<std::string> names;  // kFor
  std::unique_ptr<TemplateExpr>
      expr;  // what is printed, the condition, what is gone through, the value (null: a block)
  std::unique_ptr<TemplateExpr> only;  // kFor: the condition
  TemplateBlock body, otherwise;       // an elif is an if in `otherwise`
  int64_t line = 1;
};

// kInvalidArgument names the line and what is not supported, such as `macro`. At most 1 MiB, and 100 levels deep.
// Fuzzed: tests/fuzz/chat_template_fuzz.cc.
absl::StatusOr<TemplateBlock> ParseTemplate(absl::string_view text);

}  // namespace composer
