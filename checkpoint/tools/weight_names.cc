// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/weight_names.h"

#include <nlohmann/json.hpp>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "checkpoint/format/json_text.h"

namespace composer {

absl::StatusOr<RenameRule> ParseRenameRule(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos)
    return absl::InvalidArgumentError("must be FROM=TO, two beginnings of names (module.= takes `module.` away)");
  return RenameRule{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

std::string Renamed(absl::string_view name, absl::Span<const RenameRule> rules) {
  for (const RenameRule& rule : rules) {
    if (absl::StartsWith(name, rule.from)) return absl::StrCat(rule.to, name.substr(rule.from.size()));
  }
  return std::string(name);
}

absl::Status CheckRenamed(absl::Span<const std::string> before, absl::Span<const std::string> after,
                          absl::Span<const RenameRule> rules) {
  for (const RenameRule& rule : rules) {
    if (std::none_of(before.begin(), before.end(),
                     [&](const std::string& name) { return absl::StartsWith(name, rule.from); }))
      return absl::InvalidArgumentError(
          absl::StrCat("--rename ", rule.from, "=", rule.to, ": no name begins with `", rule.from, "`",
                       before.empty() ? "" : absl::StrCat("; the first is `", before[0], "`")));
  }
  absl::flat_hash_map<absl::string_view, absl::string_view> origin;
  for (size_t i = 0; i < after.size(); ++i) {
    const auto [known, is_new] = origin.emplace(after[i], before[i]);
    if (!is_new)
      return absl::InvalidArgumentError(
          absl::StrCat("`", known->second, "` and `", before[i], "` would both be called `", after[i], "`"));
  }
  return absl::OkStatus();
}

std::vector<size_t> SplitBySize(absl::Span<const int64_t> bytes, int64_t max_bytes) {
  std::vector<size_t> counts;
  int64_t used = 0;
  for (const int64_t size : bytes) {
    if (counts.empty() || used > max_bytes - std::min(size, max_bytes) || size > max_bytes) {
      if (counts.empty() || counts.back() > 0) counts.push_back(0);
      used = 0;
    }
    ++counts.back();
    used = std::min(used + size, max_bytes);
  }
  return counts;
}

absl::StatusOr<int64_t> ParseByteSize(absl::string_view text) {
  struct Unit {
    absl::string_view name;
    double bytes;
  };
  constexpr Unit kUnits[] = {{"kib", 1024.0}, {"mib", 1048576.0}, {"gib", 1073741824.0}, {"kb", 1e3},
                             {"mb", 1e6},     {"gb", 1e9},        {"tb", 1e12},          {"b", 1}};
  const std::string lower = absl::AsciiStrToLower(text);
  absl::string_view number = lower;
  double factor = 1;
  for (const Unit& unit : kUnits) {
    if (!absl::ConsumeSuffix(&number, unit.name)) continue;
    factor = unit.bytes;
    break;
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value) || !(value * factor >= 1) || value * factor > 9e18)
    return absl::InvalidArgumentError("must be a size of at least 1 byte: 5GB, 200MB, 512KiB, 1000000");
  return static_cast<int64_t>(value * factor);
}

absl::StatusOr<std::vector<std::string>> FilesOfWeightIndex(absl::string_view text) {
  RETURN_IF_ERROR(CheckJson(text, JsonLimits{.max_depth = 16}));
  const nlohmann::json json = ParseJson(text);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object() || map->empty())
    return absl::DataLossError("it has no weight_map from names to files");
  std::set<std::string> files;
  for (const auto& value : *map) {
    if (!value.is_string()) return absl::DataLossError("a file of its weight_map is not text");
    const std::string name = value.get<std::string>();
    if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
      return absl::DataLossError(absl::StrCat("its weight_map names \"", absl::CHexEscape(name.substr(0, 100)),
                                              "\", which is not a file beside it"));
    files.insert(name);
  }
  return std::vector<std::string>(files.begin(), files.end());
}

}  // namespace composer
