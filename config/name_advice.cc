// SPDX-License-Identifier: Apache-2.0
#include "config/name_advice.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/nearest_name.h"
#include "config/missing_keys.h"
#include "config/renamed_keys.h"
#include "config/yaml.h"

namespace composer {
namespace {

constexpr size_t kShortList = 8;

std::string DidYouMeanOneOf(const std::vector<std::string>& names) {
  return names.empty() ? "" : absl::StrCat(" (did you mean `", absl::StrJoin(names, "` or `"), "`?)");
}

const ConfigNode* Named(const ConfigNode& document, absl::string_view key) {
  const ConfigNode* node = document.Find(key);
  if (node != nullptr && node->is_list() && !node->children.empty()) node = &node->children[0];
  return node != nullptr && node->is_map() ? node : nullptr;
}

}  // namespace

std::string BareName(absl::string_view name) {
  std::string bare = absl::StrReplaceAll(absl::AsciiStrToLower(name.substr(0, 64)), {{"_", ""}, {"-", ""}});
  for (absl::string_view kind : {"scheduler", "optimizer", "callback", "logger", "algorithm", "metric", "dataset",
                                 "model", "tokenizer", "transform", "collator"}) {
    if (bare.size() > kind.size() && absl::EndsWith(bare, kind)) {
      bare.resize(bare.size() - kind.size());
      break;
    }
  }
  return bare;
}

std::vector<std::string> NearNames(absl::string_view name, const std::vector<std::string>& known) {
  const std::string bare = BareName(name);
  std::vector<std::pair<int, std::string>> near;
  for (const std::string& candidate : known) {
    const std::string other = BareName(candidate);
    const int distance = EditDistance(bare, other);
    const int limit = std::max<int>(1, static_cast<int>(std::max(bare.size(), other.size()) / 3));
    if (distance <= limit) near.emplace_back(distance, candidate);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> names;
  for (const auto& [distance, candidate] : near) {
    // Keeps an exact match alone, or else those that are about as near.
    if (names.size() == 3 || distance > near[0].first + (near[0].first == 0 ? 0 : 1)) break;
    names.push_back(candidate);
  }
  return names;
}

std::string UnknownName(absl::string_view name, const std::vector<std::string>& known) {
  const std::string list = known.size() <= kShortList
                               ? absl::StrJoin(known, ", ")
                               : absl::StrCat("the ", known.size(), " names that docs/configuration.md lists");
  return absl::StrCat("`", name.substr(0, 100), "` is not one of ", list, DidYouMeanOneOf(NearNames(name, known)));
}

std::string UnknownNameOfKind(absl::string_view kind, absl::string_view name, const std::vector<std::string>& known) {
  const std::string reason = MissingNameReason(kind, name);
  if (reason.empty()) return UnknownName(name, known);
  return absl::StrCat("there is no ", kind, " `", name.substr(0, 100), "`: ", reason);
}

std::vector<std::string> PlacesOfKey(absl::string_view key, const ConfigNode& document, const Schema& schema) {
  std::vector<std::string> places;
  const KeySection* job = schema.Find("map", "job");
  const auto add = [&](std::string place) {
    if (places.size() < 2) places.push_back(std::move(place));
  };
  const auto has = [&](absl::string_view kind, absl::string_view name) {
    const KeySection* section = name.empty() ? nullptr : schema.Find(kind, name);
    return section != nullptr && section->Find(key) != nullptr;
  };
  if (job == nullptr) return places;
  for (const KeyRow& row : job->rows) {
    const ValueType& type = row.types.back();
    const bool one_map = type.kind == ValueType::Kind::kMap && type.section != "fsdp";
    if (one_map && has("map", type.section)) add(absl::StrCat(row.key, ".", key));
    if (type.kind != ValueType::Kind::kNamed && type.kind != ValueType::Kind::kNamedList) continue;
    const absl::StatusOr<ConfigNode> fallback = ParseYamlValue(row.fallback, "default");
    const ConfigNode* node = Named(document, row.key);
    if (node == nullptr && fallback.ok()) node = &*fallback;
    const ConfigNode* name = node == nullptr ? nullptr : node->Find("name");
    if (has("map", type.with) || (name != nullptr && has(type.section, name->scalar)))
      add(absl::StrCat(row.key, ".", key));
  }
  if (has("map", "fsdp")) add(absl::StrCat("parallelism_config.fsdp.", key));
  if (job->Find(key) != nullptr) add(std::string(key));
  return places;
}

std::string UnknownKey(absl::string_view path, absl::string_view key, const std::vector<std::string>& known,
                       const ConfigNode& document, const Schema& schema) {
  if (const std::string advice = RenamedKeyAdvice(path); !advice.empty()) return absl::StrCat("unknown key; ", advice);
  if (const std::string hint = DidYouMean(key, known); !hint.empty()) return absl::StrCat("unknown key", hint);
  std::vector<std::string> places = PlacesOfKey(key, document, schema);
  places.erase(std::remove(places.begin(), places.end(), std::string(path)), places.end());
  return absl::StrCat("unknown key", DidYouMeanOneOf(places));
}

}  // namespace composer
