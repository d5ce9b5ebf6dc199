// SPDX-License-Identifier: Apache-2.0
#include "views/run_filter.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

RunValue OfNumber(double number) { return {absl::StrCat(number), number}; }

std::optional<double> AsNumber(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) ? std::optional<double>(number) : std::nullopt;
}

// Returns a negative number, 0 or a positive one; NaN compares as greater than every number.
int OrderOf(const RunValue& a, const RunValue& b) {
  if (!a.number.has_value() || !b.number.has_value()) return a.text.compare(b.text);
  if (std::isnan(*a.number) || std::isnan(*b.number)) return std::isnan(*a.number) - std::isnan(*b.number);
  return *a.number < *b.number ? -1 : *a.number > *b.number ? 1 : 0;
}

}  // namespace

std::optional<RunValue> ValueOf(const ListedRun& run, absl::string_view key) {
  const RunInfo& info = run.info;
  const auto number = [](auto value) { return OfNumber(static_cast<double>(value)); };
  if (key == "name") return RunValue{info.name, {}};
  if (key == "folder") return RunValue{info.folder, {}};
  if (key == "state") return RunValue{info.state, {}};
  if (key == "step") return number(info.steps);
  if (key == "epoch") return number(info.epoch);
  if (key == "samples") return number(info.samples);
  if (key == "restarts") return number(info.restarts);
  if (key == "launches") return number(info.launches);
  if (key == "ranks") return number(info.world_size);
  if (key == "started") return number(info.started);
  if (key == "wall") return number(info.wall_seconds);
  if (absl::ConsumePrefix(&key, "config.")) {
    const auto found = run.settings.find(std::string(key));
    if (found == run.settings.end()) return std::nullopt;
    return RunValue{found->second, AsNumber(found->second)};
  }
  const auto found = info.metrics.find(std::string(key));
  return found == info.metrics.end() ? std::nullopt : std::optional<RunValue>(OfNumber(found->second));
}

bool RunCondition::Holds(const ListedRun& run) const {
  const std::optional<RunValue> found = ValueOf(run, key);
  if (!found.has_value()) return false;
  const RunValue wanted{value, AsNumber(value)};
  const bool numbers = found->number.has_value() && wanted.number.has_value();
  const int order = OrderOf(*found, wanted);
  const bool equal = numbers ? order == 0 : fnmatch(value.c_str(), found->text.c_str(), 0) == 0;
  if (op == "=") return equal;
  if (op == "!=") return !equal;
  if (numbers && (std::isnan(*found->number) || std::isnan(*wanted.number))) return false;
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

absl::StatusOr<RunCondition> ParseCondition(absl::string_view text) {
  const size_t at = text.find_first_of("=!<>");
  if (at != absl::string_view::npos && at > 0) {
    for (const absl::string_view op : {"!=", "<=", ">=", "=", "<", ">"}) {
      if (text.substr(at, op.size()) != op) continue;
      RunCondition condition{std::string(absl::StripAsciiWhitespace(text.substr(0, at))), std::string(op),
                             std::string(absl::StripAsciiWhitespace(text.substr(at + op.size())))};
      if (condition.value.empty()) break;
      return condition;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "`", text,
      "` must be KEY=VALUE, or with != < <= > >=: loss/train/total<0.5, state=done, config.optimizers.lr=0.001"));
}

void SortRuns(absl::string_view key, std::vector<ListedRun>& runs) {
  const bool descending = absl::ConsumePrefix(&key, "-");
  std::sort(runs.begin(), runs.end(), [&](const ListedRun& a, const ListedRun& b) {
    const auto x = ValueOf(a, key), y = ValueOf(b, key);
    if (x.has_value() != y.has_value()) return x.has_value();
    const int order = x.has_value() ? OrderOf(*x, *y) : 0;
    if (order != 0) return descending ? order > 0 : order < 0;
    return std::tie(b.info.last_record, a.info.folder) < std::tie(a.info.last_record, b.info.folder);
  });
}

}  // namespace composer
