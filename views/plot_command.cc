// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/console.h"
#include "base/env.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "contract/exit_code.h"
#include "views/draw/png_plot.h"
#include "views/draw/report_page.h"
#include "views/draw/svg_plot.h"
#include "views/draw/terminal_plot.h"
#include "views/run_commands.h"
#include "views/view_options.h"

namespace composer {
namespace {

constexpr size_t kMaxCurves = 2000;

std::vector<std::string> KnownMetrics(const std::string& folder) {
  std::vector<std::string> names;
  const auto run = ReadRun(folder, {});
  if (!run.ok()) return names;
  for (const auto& [name, value] : run->metrics) names.push_back(name);
  return names;
}

absl::StatusOr<std::vector<PlotCurve>> CurvesOf(const std::string& folder, const std::string& metric, XAxis axis,
                                                double smooth, bool several) {
  MetricsReader reader({.path = JoinPath(folder, "metrics.jsonl"), .names = {metric}});
  RETURN_IF_ERROR(reader.Poll());
  std::vector<PlotCurve> curves;
  const std::string run = BaseName(AbsolutePath(folder));
  for (const MetricSeries& series : reader.series()) {
    if (series.rows.empty()) continue;
    const std::string label = series.name == metric ? run : several ? absl::StrCat(run, " ", series.name) : series.name;
    curves.push_back({label, Smoothed(PointsOf(reader, series, axis), smooth)});
  }
  if (!curves.empty()) return curves;
  return absl::NotFoundError(absl::StrCat("run ", run, " has no metric `", metric, "`",
                                          DidYouMean(metric, KnownMetrics(folder)), "; `composer runs ", folder,
                                          " --json` lists them"));
}

// Reads the files on all processors.
absl::StatusOr<std::vector<PlotCurve>> ReadCurves(const std::vector<std::string>& folders, const std::string& metric,
                                                  XAxis axis, double smooth) {
  std::vector<absl::StatusOr<std::vector<PlotCurve>>> read(folders.size(), std::vector<PlotCurve>());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < folders.size(); i = next++)
      read[i] = CurvesOf(folders[i], metric, axis, smooth, folders.size() > 1);
  };
  std::vector<std::thread> threads;
  const size_t count = std::min<size_t>({8, std::max(1u, std::thread::hardware_concurrency()), folders.size()});
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  std::vector<PlotCurve> curves;
  for (auto& of_run : read) {
    if (!of_run.ok()) return of_run.status();
    for (PlotCurve& curve : *of_run) curves.push_back(std::move(curve));
  }
  if (curves.size() <= kMaxCurves) return curves;
  return absl::InvalidArgumentError(absl::StrCat(curves.size(), " curves are more than ", kMaxCurves));
}

int WritePictures(const std::vector<PlotCurve>& curves, const std::string& metric, const PlotCommandOptions& options) {
  const SvgOptions svg{.title = metric,
                       .x_label = options.x,
                       .width = options.width > 0 ? options.width : 800,
                       .height = options.height > 0 ? options.height : 400,
                       .logarithmic = options.log};
  absl::Status status;
  if (!options.svg.empty()) status = AtomicWriteFile(options.svg, SvgPlot(curves, svg));
  if (!options.png.empty()) {
    const absl::StatusOr<std::string> png = PngPlot(curves, svg);
    status.Update(png.ok() ? AtomicWriteFile(options.png, *png) : png.status());
  }
  return status.ok() ? exit_code::kDone : ViewError(status.message());
}

absl::StatusOr<ReportInput> GatherReport(const std::string& folder) {
  ReportInput input;
  ASSIGN_OR_RETURN(input.run, ReadRun(folder, {}));
  input.now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  if (auto config = ReadFile(JoinPath(folder, "config.yaml"), 1 << 20); config.ok()) input.config = *std::move(config);
  LineFollower tables(JoinPath(folder, "tables.jsonl"));
  const auto read = tables.Read(int64_t{1} << 30, [&](absl::string_view line) {
    if (input.tables.size() == 40) input.tables.erase(input.tables.begin());
    input.tables.emplace_back(line);
  });
  if (!read.ok() && !absl::IsNotFound(read.status())) input.notes.emplace_back(read.status().message());
  return input;
}

}  // namespace

int PlotCommand(const std::vector<std::string>& arguments) {
  PlotCommandOptions options;
  const ViewCall call = ParseView(
      "composer plot [flags] RUN ... METRIC",
      "Draws a metric of one or several runs in the terminal, or as a picture (SVG, PNG). RUN is a run folder or the "
      "name of one in runs/; METRIC may contain `*`.",
      PlotFlags(&options), arguments);
  if (call.exit_code >= 0) return call.exit_code;
  if (call.words.size() < 2)
    return ViewError("plot takes a RUN and a METRIC: composer plot runs/fashion loss/train/total");
  double smooth = 0;
  if (!absl::SimpleAtod(options.smooth, &smooth) || !(smooth >= 0 && smooth < 1))
    return ViewError(absl::StrCat("--smooth ", options.smooth, ": must be at least 0 and less than 1"));
  std::vector<std::string> folders;
  for (size_t i = 0; i + 1 < call.words.size(); ++i) {
    const auto folder = FindRunFolder(call.words[i]);
    if (!folder.ok()) return ViewError(folder.status().message());
    folders.push_back(*folder);
  }
  const std::string& metric = call.words.back();
  const auto curves = ReadCurves(folders, metric, *XAxisByName(options.x), smooth);
  if (!curves.ok()) return ViewError(curves.status().message());
  if (!options.svg.empty() || !options.png.empty()) return WritePictures(*curves, metric, options);
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  const int columns = options.width > 0 ? options.width : TerminalColumns() > 0 ? TerminalColumns() : 80;
  return PrintView(TerminalPlot(*curves, {.title = metric,
                                          .x_label = options.x,
                                          .columns = static_cast<size_t>(columns),
                                          .lines = static_cast<size_t>(options.height > 0 ? options.height : 20),
                                          .logarithmic = options.log,
                                          .colour = WantsColour(terminal, Environment::FromProcess())}));
}

int ReportCommand(const std::vector<std::string>& arguments) {
  ReportOptions options;
  const ViewCall call =
      ParseView("composer report [flags] RUN",
                "Writes one HTML page about a run: curves, generations and failures, configuration. It "
                "works offline.",
                ReportFlags(&options), arguments);
  if (call.exit_code >= 0) return call.exit_code;
  if (call.words.size() != 1) return ViewError("report takes one RUN: composer report runs/fashion");
  const auto folder = FindRunFolder(call.words[0]);
  if (!folder.ok()) return ViewError(folder.status().message());
  auto input = GatherReport(*folder);
  if (!input.ok()) return ViewError(input.status().message());
  MetricsReader reader({.path = JoinPath(*folder, "metrics.jsonl")});
  if (const absl::Status read = reader.Poll(); !read.ok()) input->notes.emplace_back(read.message());
  if (reader.bad_lines() > 0)
    input->notes.push_back(absl::StrCat(reader.bad_lines(), " lines of metrics.jsonl are damaged and left out"));
  const std::string path = options.output.empty() ? JoinPath(*folder, "report.html") : options.output;
  if (const absl::Status status = AtomicWriteFile(path, ReportPage(*input, reader)); !status.ok())
    return ViewError(status.message());
  return PrintView(absl::StrCat(path, "\n"));
}

}  // namespace composer
