// SPDX-License-Identifier: Apache-2.0
#include "base/name_template.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/nearest_name.h"

namespace composer {
namespace {

// What is between the braces: a name and the width to which zeros fill it up.
struct Placeholder {
  absl::string_view name;
  int width = 0;
};

Placeholder Parse(absl::string_view text) {
  Placeholder parsed{text};
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos) return parsed;
  absl::string_view digits = text.substr(colon + 1);
  absl::ConsumeSuffix(&digits, "d");
  if (absl::StartsWith(digits, "0") && absl::SimpleAtoi(digits, &parsed.width) && parsed.width <= 64)
    parsed.name = text.substr(0, colon);
  return parsed;
}

const std::string* Find(const PlaceholderValues& values, absl::string_view name) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == name; });
  return found == values.end() ? nullptr : &found->second;
}

std::string Padded(const std::string& value, int width) {
  const int missing = width - static_cast<int>(value.size());
  return absl::StrCat(std::string(static_cast<size_t>(std::max(missing, 0)), '0'), value);
}

std::string Seconds(absl::Duration duration) { return absl::StrFormat("%.3f", absl::ToDoubleSeconds(duration)); }

}  // namespace

PlaceholderValues PlaceholdersOf(const Timestamp& now) {
  return {{"iteration", absl::StrCat(now.iteration)}, {"epoch", absl::StrCat(now.epoch)},
          {"batch", absl::StrCat(now.batch)},         {"batch_in_epoch", absl::StrCat(now.batch_in_epoch)},
          {"sample", absl::StrCat(now.sample)},       {"sample_in_epoch", absl::StrCat(now.sample_in_epoch)},
          {"token", absl::StrCat(now.token)},         {"token_in_epoch", absl::StrCat(now.token_in_epoch)},
          {"total_wct", Seconds(now.total_wct)},      {"iteration_wct", Seconds(now.iteration_wct)},
          {"epoch_wct", Seconds(now.epoch_wct)},      {"batch_wct", Seconds(now.batch_wct)}};
}

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
    const Placeholder placeholder = Parse(text.substr(open + 1, close - open - 1));
    const std::string* value = Find(values, placeholder.name);
    const size_t end = value == nullptr ? open + 1 : close + 1;  // a brace before an unknown name is plain text
    absl::StrAppend(&filled, text.substr(0, open), value == nullptr ? "{" : Padded(*value, placeholder.width));
    text.remove_prefix(end);
  }
  return absl::StrCat(filled, text);
}

absl::Status CheckPlaceholders(absl::string_view text, const PlaceholderValues& values) {
  std::vector<std::string> known;
  for (const auto& [name, value] : values) known.push_back(name);
  for (size_t open = text.find('{'); open != text.npos; open = text.find('{', open + 1)) {
    const size_t close = text.find('}', open);
    if (close == text.npos) return absl::InvalidArgumentError(absl::StrCat(text, ": { without }"));
    const std::string name(Parse(text.substr(open + 1, close - open - 1)).name);
    if (Find(values, name) != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat("unknown placeholder {", name, "}; there are {",
                                                   absl::StrJoin(known, "}, {"), "}", DidYouMean(name, known)));
  }
  return absl::OkStatus();
}

bool HasPlaceholder(absl::string_view text, absl::string_view name) {
  return absl::StrContains(text, absl::StrCat("{", name, "}"));
}

}  // namespace composer
