// SPDX-License-Identifier: Apache-2.0
#include "views/draw/report_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/format/json.h"
#include "views/draw/curve.h"
#include "views/draw/svg_plot.h"
#include "views/read/metric_names.h"

namespace composer {
namespace {

constexpr size_t kMaxCharts = 200, kMaxTables = 20, kMaxTableRows = 50;

constexpr absl::string_view kHead = R"(<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><style>
body{font:14px sans-serif;max-width:1340px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:.5em 0}
td,th{border:1px solid #ddd;padding:.25em .6em;text-align:left;vertical-align:top}
th{background:#f5f5f5}pre{background:#f7f7f7;padding:1em;overflow:auto;max-height:40em}
.charts{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0;width:420px}figcaption{color:#555;font-size:12px}
.bar{display:flex;height:1.4em;background:#eee;margin:.5em 0}
.bar i{display:block;border-right:2px solid #fff}.done{background:#009e73}.failed{background:#d55e00}
.preempted{background:#e69f00}.running{background:#0072b2}.note{color:#a40000}
</style><title>)";

std::string Tagged(absl::string_view tag, absl::string_view text) {
  return absl::StrCat("<", tag, ">", MarkupText(text), "</", tag, ">");
}

std::string TableRow(absl::string_view tag, const std::vector<std::string>& cells) {
  std::string html = "<tr>";
  for (const std::string& cell : cells) absl::StrAppend(&html, Tagged(tag, cell));
  return html + "</tr>\n";
}

std::string Facts(const ReportInput& input, const MetricsReader& reader) {
  const RunInfo& run = input.run;
  const auto time = [](double seconds) {
    return seconds > 0 && seconds < 1e11
               ? absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(static_cast<int64_t>(seconds)),
                                  absl::UTCTimeZone())
               : std::string("unknown");
  };
  std::string html = "<table>";
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"state", run.state},
      {"folder", run.folder},
      {"steps", absl::StrCat(run.steps, ", in epoch ", run.epoch)},
      {"samples", absl::StrCat(run.samples)},
      {"ranks", absl::StrCat(run.world_size)},
      {"started (last launch)", time(static_cast<double>(run.started))},
      {"last record", time(run.last_record)},
      {"wall time", absl::StrFormat("%.1f s in %d launches", run.wall_seconds, run.launches)},
      {"restarts", absl::StrFormat("%d, with %d steps done again", run.restarts, run.recomputed_steps)},
      {"kept share of the time", absl::StrFormat("%.1f %%", 100 * KeptShare(run, reader.rows()))},
      {"last checkpoint", run.last_checkpoint},
  };
  for (const auto& [name, value] : facts)
    absl::StrAppend(&html, "<tr>", Tagged("th", name), Tagged("td", value), "</tr>\n");
  return html + "</table>\n";
}

std::string Generations(const RunInfo& run) {
  if (run.generations.empty()) return "";
  int64_t steps = 0;
  for (const RunGeneration& g : run.generations) steps += std::max<int64_t>(1, g.end_step - g.start_step);
  std::string bar = "<div class=\"bar\">", table = "<table>";
  table += TableRow("th", {"generation", "steps", "done again", "ended", "first cause", "why", "what followed"});
  for (const RunGeneration& g : run.generations) {
    const double share =
        100.0 * static_cast<double>(std::max<int64_t>(1, g.end_step - g.start_step)) / static_cast<double>(steps);
    const bool known = g.ended == "done" || g.ended == "preempted" || g.ended == "running";
    absl::StrAppendFormat(&bar, "<i class=\"%s\" style=\"width:%.2f%%\" title=\"%s\"></i>", known ? g.ended : "failed",
                          share, MarkupText(absl::StrCat("generation ", g.generation)));
    table += TableRow("td", {absl::StrCat(g.generation), absl::StrCat(g.start_step, " to ", g.end_step),
                             absl::StrCat(g.recomputed_steps), g.ended, g.first_cause, g.cause, g.decision});
  }
  return absl::StrCat("<h2>Generations of the last launch</h2>\n", bar, "</div>\n", table, "</table>\n");
}

// Returns the batches at which another generation continued.
std::vector<double> Restarts(const std::vector<MetricRow>& rows) {
  std::vector<double> restarts;
  for (size_t i = 1; i < rows.size() && restarts.size() < 500; ++i) {
    if (rows[i].launch != rows[i - 1].launch || rows[i].generation != rows[i - 1].generation)
      restarts.push_back(static_cast<double>(rows[i].batch));
  }
  return restarts;
}

std::string Charts(const MetricsReader& reader) {
  std::vector<const MetricSeries*> shown;
  for (const MetricSeries& series : reader.series()) {
    if (!series.values.empty()) shown.push_back(&series);
  }
  std::sort(shown.begin(), shown.end(), [](const auto* a, const auto* b) {
    const auto rank = [](const std::string& name) {
      return name.rfind("loss/", 0) == 0 ? 0 : name.rfind("metrics/", 0) == 0 ? 1 : 2;
    };
    return std::pair(rank(a->name), a->name) < std::pair(rank(b->name), b->name);
  });
  std::string html = "<h2>Curves</h2>\n<p>Red lines are restarts.</p><div class=\"charts\">\n";
  const std::vector<double> restarts = Restarts(reader.rows());
  for (size_t i = 0; i < std::min(shown.size(), kMaxCharts); ++i) {
    const PlotCurve curve{shown[i]->name, PointsOf(reader, *shown[i], XAxis::kBatch)};
    const MetricMeaning* known = FindMeaning(shown[i]->name);
    const SvgOptions options = {
        .title = curve.label, .x_label = "batch", .width = 420, .height = 240, .marks = restarts};
    absl::StrAppend(&html, "<figure>", SvgPlot({curve}, options));
    if (known != nullptr) absl::StrAppend(&html, "<figcaption>", MarkupText(known->meaning), "</figcaption>");
    html += "</figure>\n";
  }
  if (shown.size() > kMaxCharts)
    absl::StrAppend(&html, "<p>", shown.size() - kMaxCharts, " more metrics are not drawn.</p>");
  return html + "</div>\n";
}

std::string Values(const RunInfo& run) {
  std::string html = "<h2>Last values</h2>\n<details><summary>all metrics</summary><table>\n";
  for (const auto& [name, value] : run.metrics) html += TableRow("td", {name, absl::StrFormat("%.6g", value)});
  return html + "</table></details>\n";
}

// A line of tables.jsonl (trainer/loggers/table_lines.h).
std::string Table(const std::string& line) {
  const auto json = ParseJson(line);
  if (!json.is_object() || !json.contains("table") || !json.contains("columns") || !json.contains("data")) return "";
  const auto texts = [](const nlohmann::json& list) {
    std::vector<std::string> cells;
    for (const auto& cell : list) {
      const auto text = cell.is_string() ? cell.get<std::string>()
                                         : cell.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      cells.push_back(text.substr(0, 2000));
      if (cells.size() == 50) break;
    }
    return cells;
  };
  const nlohmann::json &name = json["table"], &columns = json["columns"], &data = json["data"];
  if (!name.is_string() || !columns.is_array() || !data.is_array()) return "";
  std::string html = absl::StrCat(Tagged("h3", name.get<std::string>()), "<table>", TableRow("th", texts(columns)));
  size_t rows = 0;
  for (const auto& row : data) {
    if (row.is_array() && rows++ < kMaxTableRows) html += TableRow("td", texts(row));
  }
  return html + "</table>\n";
}

std::string Tables(const std::vector<std::string>& lines) {
  std::string html;
  for (size_t i = lines.size() - std::min(lines.size(), kMaxTables); i < lines.size(); ++i) html += Table(lines[i]);
  return html.empty() ? "" : absl::StrCat("<h2>Samples</h2>\n", html);
}

}  // namespace

double KeptShare(const RunInfo& run, const std::vector<MetricRow>& rows) {
  double kept = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const double seconds = rows[i].wall - rows[i - 1].wall;
    if (rows[i].launch == rows[i - 1].launch && rows[i].generation == rows[i - 1].generation && seconds > 0)
      kept += seconds;
  }
  return run.wall_seconds > 0 ? std::clamp(kept / run.wall_seconds, 0.0, 1.0) : 0;
}

std::string ReportPage(const ReportInput& input, const MetricsReader& reader) {
  std::string html = absl::StrCat(kHead, MarkupText(input.run.name), "</title></head><body>\n<h1>",
                                  MarkupText(input.run.name), "</h1>\n");
  for (const std::string& note : input.notes) absl::StrAppend(&html, "<p class=\"note\">", MarkupText(note), "</p>\n");
  absl::StrAppend(&html, Facts(input, reader), Charts(reader), Generations(input.run), Values(input.run),
                  Tables(input.tables));
  if (!input.config.empty())
    absl::StrAppend(&html, "<h2>Configuration</h2>\n<pre>", MarkupText(input.config), "</pre>\n");
  absl::StrAppend(&html, "<p>Made by composer ", COMPOSER_VERSION, " on ",
                  absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::FromUnixSeconds(static_cast<int64_t>(input.now)),
                                   absl::UTCTimeZone()),
                  ".</p></body></html>\n");
  return html;
}

}  // namespace composer
