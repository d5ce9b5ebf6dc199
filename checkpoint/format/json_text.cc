// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/format/json.h"

namespace composer {
namespace {

// Sees every value and keeps only the keys of the objects that are open. Returning false ends the parse.
class Checker final : public nlohmann::json::json_sax_t {
 public:
  explicit Checker(const JsonLimits& limits) : limits_(limits) {}

  const std::string& problem() const { return problem_; }

  bool null() override { return Value(); }
  bool boolean(bool) override { return Value(); }
  bool number_integer(number_integer_t) override { return Value(); }
  bool number_unsigned(number_unsigned_t) override { return Value(); }
  bool number_float(number_float_t, const string_t&) override { return Value(); }
  bool string(string_t&) override { return Value(); }
  bool binary(binary_t&) override { return Fail("binary value"); }
  bool start_object(std::size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (!open_.back().insert(name).second) return Fail(absl::StrCat("key \"", absl::CHexEscape(name), "\" twice"));
    return Value();
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return Fail(absl::StrCat("syntax error at byte ", position));
  }

 private:
  bool Value() {
    return ++values_ <= limits_.max_values || Fail(absl::StrCat("more than ", limits_.max_values, " values"));
  }
  bool Open() {
    open_.emplace_back();
    if (static_cast<int>(open_.size()) > limits_.max_depth)
      return Fail(absl::StrCat("deeper than ", limits_.max_depth, " levels"));
    return Value();
  }
  bool Close() {
    open_.pop_back();
    return true;
  }
  bool Fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }

  const JsonLimits limits_;
  std::vector<absl::flat_hash_set<std::string>> open_;
  int64_t values_ = 0;
  std::string problem_;
};

}  // namespace

absl::Status CheckJson(absl::string_view text, const JsonLimits& limits) {
  if (absl::StrContains(text, '\0')) return absl::DataLossError("not valid JSON: a NUL byte");
  if (absl::StartsWith(text, "\xef\xbb\xbf")) return absl::DataLossError("not valid JSON: a byte order mark");
  Checker checker(limits);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &checker)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("not valid JSON: ", checker.problem()));
}

absl::StatusOr<std::string> CanonicalJson(absl::string_view text) {
  const absl::Status checked = CheckJson(text);
  if (!checked.ok()) return absl::InvalidArgumentError(checked.message());
  return ParseJson(text).dump();
}

absl::StatusOr<std::string> QuoteJson(absl::string_view text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return absl::StrCat("\"", text, "\"");
  try {
    return nlohmann::json(std::string(text)).dump();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(absl::StrCat("not valid UTF-8: \"", absl::CHexEscape(text.substr(0, 100)), "\""));
  }
}

}  // namespace composer
