// SPDX-License-Identifier: Apache-2.0
#include "launcher/speedrun/speedrun_lines.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"

namespace composer {
namespace {

using Json = nlohmann::json;

double Ratio(const Moments& plain, const Moments& recipe) {
  if (plain.count == 0 || recipe.count == 0 || recipe.mean == 0) return std::numeric_limits<double>::quiet_NaN();
  return plain.mean / recipe.mean;
}

Json JsonOf(const SpeedrunArm& arm) {
  return {{"runs", arm.steps.count},
          {"reached", arm.reached},
          {"steps", arm.steps.mean},
          {"steps_deviation", arm.steps.deviation},
          {"cpu_seconds", arm.cpu_seconds.mean},
          {"cpu_seconds_deviation", arm.cpu_seconds.deviation},
          {"value", arm.value.mean}};
}

// JSON has no NaN.
Json NumberOrNull(double value) { return std::isnan(value) ? Json() : Json(value); }

std::string RatioText(absl::string_view what, double ratio, double p) {
  if (std::isnan(ratio)) return absl::StrCat(what, ": both arms are needed for a ratio\n");
  const std::string test = std::isnan(p) ? "two runs of each are needed for a test" : absl::StrFormat("p = %.2g", p);
  return absl::StrFormat("%s: plain / recipe = %.2f (Welch's test: %s)\n", what, ratio, test);
}

}  // namespace

std::string SpeedrunJson(const SpeedrunLine& line) {
  return Json{{"task", line.task},
              {"arm", line.arm},
              {"seed", line.seed},
              {"job", line.job},
              {"reached", line.reached},
              {"value", line.value},
              {"steps", line.steps},
              {"cpu_seconds", line.cpu_seconds},
              {"wall_seconds", line.wall_seconds},
              {"finished", line.finished}}
      .dump();
}

absl::StatusOr<SpeedrunLine> ParseSpeedrunLine(absl::string_view text) {
  const Json json = ParseJson(text);
  SpeedrunLine line;
  const auto take = [&](const char* key, auto& into, bool fits) {
    if (fits) into = json[key].get<std::decay_t<decltype(into)>>();
    return fits;
  };
  const auto text_of = [&](const char* key, std::string& into) {
    return take(key, into, json.contains(key) && json[key].is_string());
  };
  const auto number_of = [&](const char* key, auto& into) {
    return take(key, into, json.contains(key) && json[key].is_number());
  };
  const bool fits = json.is_object() && text_of("task", line.task) && text_of("arm", line.arm) &&
                    text_of("job", line.job) && text_of("finished", line.finished) && number_of("seed", line.seed) &&
                    number_of("value", line.value) && number_of("steps", line.steps) &&
                    number_of("cpu_seconds", line.cpu_seconds) && number_of("wall_seconds", line.wall_seconds) &&
                    take("reached", line.reached, json.contains("reached") && json["reached"].is_boolean());
  if (!fits) return absl::DataLossError(absl::StrCat("no line of a speedrun: ", text.substr(0, 80)));
  return line;
}

absl::StatusOr<std::vector<SpeedrunLine>> ReadSpeedrunLines(const std::string& path) {
  std::vector<SpeedrunLine> lines;
  if (!PathExists(path)) return lines;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<std::string> texts = absl::StrSplit(text, '\n');
  texts.pop_back();  // "", or what was cut
  for (size_t i = 0; i < texts.size(); ++i) {
    absl::StatusOr<SpeedrunLine> line = ParseSpeedrunLine(texts[i]);
    if (!line.ok()) return Annotate(line.status(), absl::StrCat(path, ":", i + 1));
    lines.push_back(*std::move(line));
  }
  return lines;
}

SpeedrunArm SummaryOfArm(const std::string& name, const std::vector<SpeedrunLine>& lines) {
  SpeedrunArm arm;
  arm.name = name;
  std::vector<double> steps, cpu, values;
  for (const SpeedrunLine& line : lines) {
    if (line.arm != name) continue;
    arm.reached += line.reached ? 1 : 0;
    steps.push_back(static_cast<double>(line.steps));
    cpu.push_back(line.cpu_seconds);
    values.push_back(line.value);
  }
  arm.steps = MomentsOf(steps);
  arm.cpu_seconds = MomentsOf(cpu);
  arm.value = MomentsOf(values);
  return arm;
}

SpeedrunComparison CompareArms(const std::vector<SpeedrunLine>& lines) {
  SpeedrunComparison result;
  result.plain = SummaryOfArm("plain", lines);
  result.recipe = SummaryOfArm("recipe", lines);
  result.steps_ratio = Ratio(result.plain.steps, result.recipe.steps);
  result.cpu_ratio = Ratio(result.plain.cpu_seconds, result.recipe.cpu_seconds);
  result.steps_p = WelchPValue(result.plain.steps, result.recipe.steps);
  result.cpu_p = WelchPValue(result.plain.cpu_seconds, result.recipe.cpu_seconds);
  return result;
}

std::string SpeedrunTable(const SpeedrunComparison& comparison, absl::string_view goal) {
  std::string table = absl::StrCat("to ", goal, ":\n");
  absl::StrAppendFormat(&table, "%-8s %9s %18s %22s %12s\n", "arm", "reached", "steps", "CPU seconds", "last value");
  for (const SpeedrunArm* arm : {&comparison.plain, &comparison.recipe}) {
    absl::StrAppendFormat(&table, "%-8s %9s %9.1f ± %6.1f %13.1f ± %6.1f %12.4f\n", arm->name,
                          absl::StrCat(arm->reached, " of ", arm->steps.count), arm->steps.mean, arm->steps.deviation,
                          arm->cpu_seconds.mean, arm->cpu_seconds.deviation, arm->value.mean);
  }
  return absl::StrCat(table, RatioText("steps", comparison.steps_ratio, comparison.steps_p),
                      RatioText("CPU time", comparison.cpu_ratio, comparison.cpu_p));
}

std::string SpeedrunSummaryJson(const SpeedrunComparison& comparison, absl::string_view task) {
  return Json{{"task", std::string(task)},
              {"plain", JsonOf(comparison.plain)},
              {"recipe", JsonOf(comparison.recipe)},
              {"steps_ratio", NumberOrNull(comparison.steps_ratio)},
              {"steps_p", NumberOrNull(comparison.steps_p)},
              {"cpu_ratio", NumberOrNull(comparison.cpu_ratio)},
              {"cpu_p", NumberOrNull(comparison.cpu_p)}}
      .dump(1);
}

}  // namespace composer
