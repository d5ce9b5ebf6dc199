// SPDX-License-Identifier: Apache-2.0
#include "views/runs_table.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "views/draw/curve.h"

namespace composer {
namespace {

constexpr size_t kMaxColumns = 50, kMaxCell = 40;

bool Fits(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return pattern == name || fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

size_t Width(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Cuts a long text at a character.
std::string Cell(absl::string_view given) {
  std::string text = Printable(given);
  if (Width(text) <= kMaxCell) return text;
  size_t end = 0;
  for (size_t width = 0; end < text.size(); ++end) {
    if ((text[end] & 0xC0) != 0x80 && ++width == kMaxCell) break;
  }
  return absl::StrCat(text.substr(0, end), "…");
}

// The first column is aligned to the left, the others too, unless all of their cells but the first are numbers.
std::string Aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      absl::StrAppend(&line, i == 0 ? "" : "  ", row[i], std::string(widths[i] - Width(row[i]), ' '));
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string MetricCell(const ListedRun& run, const std::string& name) {
  const auto found = run.info.metrics.find(name);
  return found == run.info.metrics.end() ? "-" : ShortNumber(found->second);
}

std::set<std::string> MetricNames(const std::vector<ListedRun>& runs) {
  std::set<std::string> names;
  for (const ListedRun& run : runs) {
    for (const auto& [name, value] : run.info.metrics) names.insert(name);
  }
  return names;
}

}  // namespace

std::string AgeText(double seconds) {
  if (seconds < 90) return absl::StrFormat("%.0f s", std::max(0.0, seconds));
  if (seconds < 90 * 60) return absl::StrFormat("%.0f min", seconds / 60);
  if (seconds < 48 * 3600) return absl::StrFormat("%.1f h", seconds / 3600);
  return absl::StrFormat("%.0f d", seconds / 86400);
}

std::vector<std::string> MetricColumns(const std::vector<ListedRun>& runs, const std::vector<std::string>& patterns) {
  std::vector<std::string> columns;
  size_t evaluations = 0;
  for (const std::string& name : MetricNames(runs)) {
    const bool shown =
        patterns.empty() ? name == "loss/train/total" || (absl::StartsWith(name, "metrics/eval") && ++evaluations <= 2)
                         : Fits(patterns, name);
    if (shown && columns.size() < kMaxColumns) columns.push_back(name);
  }
  return columns;
}

std::string RunsTable(const std::vector<ListedRun>& runs, const std::vector<std::string>& metrics, double now) {
  std::vector<std::vector<std::string>> rows = {{"NAME", "STATE", "STEP", "EPOCH", "RESTARTS", "TIME", "LAST RECORD"}};
  for (const std::string& name : metrics) rows[0].push_back(Cell(name));
  for (const ListedRun& run : runs) {
    const RunInfo& info = run.info;
    rows.push_back({Cell(info.name), Cell(info.state), absl::StrCat(info.steps), absl::StrCat(info.epoch),
                    absl::StrCat(info.restarts), info.wall_seconds > 0 ? AgeText(info.wall_seconds) : "-",
                    info.last_record > 0 ? AgeText(now - info.last_record) + " ago" : "-"});
    for (const std::string& name : metrics) rows.back().push_back(MetricCell(run, name));
  }
  return Aligned(rows);
}

std::string ComparisonTable(const std::vector<ListedRun>& runs, const std::vector<std::string>& metrics) {
  std::set<std::string> paths;
  for (const ListedRun& run : runs) {
    for (const auto& [path, value] : run.settings) paths.insert(path);
  }
  std::vector<std::vector<std::string>> rows = {{"SETTING"}};
  for (const ListedRun& run : runs) rows[0].push_back(Cell(run.info.name));
  for (const std::string& path : paths) {
    std::vector<std::string> row = {Cell(path)};
    for (const ListedRun& run : runs) {
      const auto found = run.settings.find(path);
      row.push_back(found == run.settings.end() ? "-" : Cell(found->second));
    }
    if (std::any_of(row.begin() + 1, row.end(), [&](const std::string& cell) { return cell != row[1]; }))
      rows.push_back(row);
  }
  for (const std::string& name : metrics) {
    rows.push_back({Cell(name)});
    for (const ListedRun& run : runs) rows.back().push_back(MetricCell(run, name));
  }
  return Aligned(rows);
}

std::string RunsJson(const std::vector<ListedRun>& runs, const std::vector<std::string>& patterns) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const ListedRun& run : runs) {
    const RunInfo& info = run.info;
    Json metrics = Json::object();
    for (const auto& [name, value] : info.metrics) {
      if (patterns.empty() || Fits(patterns, name)) metrics[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
    }
    Json json = {{"name", info.name},
                 {"folder", info.folder},
                 {"state", info.state},
                 {"step", info.steps},
                 {"epoch", info.epoch},
                 {"samples", info.samples},
                 {"restarts", info.restarts},
                 {"launches", info.launches},
                 {"ranks", info.world_size},
                 {"started", info.started},
                 {"wall", info.wall_seconds},
                 {"last_record", info.last_record},
                 {"last_checkpoint", info.last_checkpoint},
                 {"metrics", metrics}};
    if (!run.settings.empty()) json["config"] = run.settings;
    list.push_back(std::move(json));
  }
  return Json{{"runs", std::move(list)}}.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace composer
