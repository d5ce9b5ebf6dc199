// SPDX-License-Identifier: Apache-2.0
#include "base/name_template.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace composer {

PlaceholderValues PlaceholdersOf(const RankPlace& place) {
  return {{"run_name", place.run_name},
          {"rank", absl::StrCat(place.rank)},
          {"local_rank", absl::StrCat(place.local_rank)},
          {"node_rank", absl::StrCat(place.node_rank)},
          {"world_size", absl::StrCat(place.world_size)},
          {"local_world_size", absl::StrCat(place.local_world_size)}};
}

std::string FillTemplate(absl::string_view text, const PlaceholderValues& values) {
  std::string filled;
  while (!text.empty()) {
    const size_t open = text.find('{');
    const size_t close = open == absl::string_view::npos ? open : text.find('}', open);
    if (close == absl::string_view::npos) break;
    const absl::string_view name = text.substr(open + 1, close - open - 1);
    const std::string* value = nullptr;
    for (const auto& [known, its_value] : values) {
      if (known == name) value = &its_value;
    }
    const size_t end = value == nullptr ? open + 1 : close + 1;  // a brace before an unknown name is plain text
    absl::StrAppend(&filled, text.substr(0, open), value == nullptr ? "{" : *value);
    text.remove_prefix(end);
  }
  return absl::StrCat(filled, text);
}

bool HasPlaceholder(absl::string_view text, absl::string_view name) {
  return absl::StrContains(text, absl::StrCat("{", name, "}"));
}

}  // namespace composer
