// SPDX-License-Identifier: Apache-2.0
#include "config/scalar.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"

namespace composer {
namespace {

absl::Status Expected(absl::string_view what, const ConfigNode& node, absl::string_view hint = "") {
  return absl::InvalidArgumentError(absl::StrCat("expected ", what, ", got ", node.Describe(), hint));
}

// Returns the text without `_`, which may only stand between digits; "" when it contains characters that are not part
// of a number or has a leading zero (octal in YAML 1.1, decimal in 1.2).
std::string NumberText(const ConfigNode& node) {
  const std::string& text = node.scalar;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool digit = absl::ascii_isdigit(c);
    if (!digit && c != '_' && c != '.' && c != 'e' && c != 'E' && c != '+' && c != '-') return "";
    if (c == '_' &&
        (i == 0 || i + 1 == text.size() || !absl::ascii_isdigit(text[i - 1]) || !absl::ascii_isdigit(text[i + 1]))) {
      return "";
    }
  }
  const size_t first = text.empty() || (text[0] != '-' && text[0] != '+') ? 0 : 1;
  if (text.size() > first + 1 && text[first] == '0' && absl::ascii_isdigit(text[first + 1])) return "";
  return absl::StrReplaceAll(text, {{"_", ""}});
}

absl::StatusOr<std::string> Number(absl::string_view what, const ConfigNode& node) {
  if (!node.is_scalar()) return Expected(what, node);
  const std::string text = NumberText(node);
  if (node.quoted) return Expected(what, node, text.empty() ? "" : "; remove the quotes");
  if (text.empty()) return Expected(what, node);
  return text;
}

}  // namespace

absl::StatusOr<int64_t> ParseIntScalar(const ConfigNode& node) {
  ASSIGN_OR_RETURN(const std::string text, Number("a whole number", node));
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value)) return value;
  double real = 0;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!absl::SimpleAtod(text, &real) || !(std::abs(real) <= kExact) || real != std::floor(real)) {
    return Expected("a whole number", node);
  }
  return static_cast<int64_t>(real);
}

absl::StatusOr<double> ParseDoubleScalar(const ConfigNode& node) {
  ASSIGN_OR_RETURN(const std::string text, Number("a number", node));
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return Expected("a number", node);
  return value;
}

absl::StatusOr<bool> ParseBoolScalar(const ConfigNode& node) {
  if (!node.is_scalar()) return Expected("true or false", node);
  const std::string& text = node.scalar;
  const bool is_true = text == "true" || text == "True" || text == "TRUE";
  const bool is_false = text == "false" || text == "False" || text == "FALSE";
  if (!is_true && !is_false) return Expected("true or false", node);
  if (node.quoted) return Expected("true or false", node, "; remove the quotes");
  return is_true;
}

absl::StatusOr<std::string> ParseStringScalar(const ConfigNode& node) {
  if (!node.is_scalar()) return Expected("a text", node);
  return node.scalar;
}

}  // namespace composer
