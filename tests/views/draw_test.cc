// Tests the pictures: reduction of points, ticks, Braille, SVG, PNG, the page.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "data/image/png.h"
#include "tests/support/temp_dir.h"
#include "views/draw/canvas.h"
#include "views/draw/plot_frame.h"
#include "views/draw/png_plot.h"
#include "views/draw/report_page.h"
#include "views/draw/svg_plot.h"
#include "views/draw/terminal_plot.h"
#include "views/read/metric_names.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Curve, ThinningKeepsEveryPeakAndGap) {
  std::vector<Point> points;
  for (int i = 0; i < 10000; ++i) points.push_back({static_cast<double>(i), 1});
  points[1234].y = 9, points[5678].y = -9, points[8000].y = kNaN;
  const std::vector<Point> thin = Thinned(points, 100);
  EXPECT_LE(thin.size(), 203u);
  EXPECT_THAT(thin, testing::Contains(Point{1234, 9}));
  EXPECT_THAT(thin, testing::Contains(Point{5678, -9}));
  EXPECT_TRUE(std::any_of(thin.begin(), thin.end(), [](const Point& p) { return std::isnan(p.y); }));
  EXPECT_TRUE(std::is_sorted(thin.begin(), thin.end(), [](const Point& a, const Point& b) { return a.x < b.x; }));
}

TEST(Curve, SmoothingIsUnbiasedAndKeepsGaps) {
  const std::vector<Point> smooth = Smoothed({{0, 4}, {1, kNaN}, {2, 4}, {3, 0}}, 0.5);
  EXPECT_DOUBLE_EQ(smooth[0].y, 4);
  EXPECT_TRUE(std::isnan(smooth[1].y));
  EXPECT_DOUBLE_EQ(smooth[2].y, 4);
  EXPECT_NEAR(smooth[3].y, 1.5 / (1 - 0.125), 1e-12);
}

TEST(Curve, TicksAreRound) {
  EXPECT_THAT(Ticks({0, 1}, 5),
              ElementsAre(0, 0.2, testing::DoubleNear(0.4, 1e-12), testing::DoubleNear(0.6, 1e-12), 0.8, 1));
  EXPECT_THAT(Ticks({0.5, 2000}, 4, true), ElementsAre(1, 10, 100, 1000));
  EXPECT_LE(Ticks({1, 1 + 1e-12}, 5).size(), 21u);
  EXPECT_THAT(ShortNumber(123456), "123.5k");
  EXPECT_THAT(ShortNumber(2.5e10), "25G");
  EXPECT_THAT(ShortNumber(0.00001234), "1.234e-05");
}

TEST(TerminalPlot, DrawsALineFromCornerToCorner) {
  const std::string text = TerminalPlot({{"up\033[31m", {{0, 0}, {10, 5}}}},
                                        {.title = "loss", .x_label = "batch", .columns = 40, .lines = 12});
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_THAT(lines[0], HasSubstr("loss"));
  EXPECT_THAT(lines[1], testing::EndsWith("⠊"));
  EXPECT_THAT(lines[9], HasSubstr("┤⣀"));
  EXPECT_THAT(lines[11], testing::ContainsRegex("0 .*batch.* 10"));
  EXPECT_THAT(lines[12], HasSubstr("up\\x1b"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST(TerminalPlot, SurvivesNoPointsOnePointAndNegativeLogarithms) {
  for (const bool logarithmic : {false, true}) {
    for (const std::vector<Point>& points :
         {std::vector<Point>{}, {{1, 1}}, {{1, kNaN}}, {{0, -1}, {1, 0}, {2, 1e300}, {3, 1e-300}}}) {
      EXPECT_THAT(TerminalPlot({{"a", points}}, {.logarithmic = logarithmic}), HasSubstr("└"));
      EXPECT_THAT(SvgPlot({{"a", points}}, {.logarithmic = logarithmic}),
                  testing::AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
    }
  }
}

TEST(PngPlot, ARealDecoderSeesCurvesAxesAndGaps) {
  const std::vector<PlotCurve> curves = {{"flat", {{0, 1}, {2, 1}, {3, kNaN}, {4, 1}, {10, 1}}},
                                         {"\xc3\xa4", {{0, 0}, {10, 2}}}};
  const auto file = PngPlot(curves, {.title = "loss", .x_label = "batch", .width = 400, .height = 200});
  ASSERT_TRUE(file.ok()) << file.status();
  const auto pixels = DecodePng(*file, /*alpha=*/false, 1 << 20);
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  EXPECT_EQ(pixels->width, 400);
  EXPECT_EQ(pixels->height, 200 + 2 * 16) << "a line of the legend for each curve";
  const PlotFrame frame(curves, {400, 200});
  const auto red_at = [&](double x, double y) {
    const auto column = static_cast<size_t>(frame.X(x)), row = static_cast<size_t>(frame.Y(y));
    return pixels->bytes[3 * (row * 400 + column)];
  };
  EXPECT_LT(red_at(1, 1), 0x80) << "blue";
  EXPECT_GE(red_at(3, 1), 0xdd) << "the gap: at most the grid";
  EXPECT_LT(red_at(8, 1), 0x80);
  std::map<std::string, int> colours;
  for (size_t at = 0; at < pixels->bytes.size(); at += 3)
    ++colours[absl::StrFormat("%02x%02x%02x", pixels->bytes[at], pixels->bytes[at + 1], pixels->bytes[at + 2])];
  EXPECT_GT(colours["0072b2"], 18) << "the first curve's stroke in the legend";
  EXPECT_GT(colours["d55e00"], 100) << "the second curve";
  EXPECT_GT(colours["000000"], 40) << "the title and the labels";
  EXPECT_GT(colours["dddddd"], 200) << "the grid";
  EXPECT_GT(colours["555555"], 100) << "the numbers at the axes";
}

TEST(Canvas, TextIsDrawnPointByPoint) {
  Canvas canvas(20, 10);
  EXPECT_EQ(Canvas::WidthOf("I\xc3\xa4"), 12);
  canvas.Text(0, 7, "I\xc3\xa4", {});
  std::string drawn;
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 11; ++x) drawn += canvas.pixels()[3 * static_cast<size_t>(20 * y + x)] == 0 ? '#' : '.';
    drawn += '\n';
  }
  EXPECT_EQ(drawn,
            ".###..#####\n"
            "..#...#...#\n"
            "..#...#...#\n"
            "..#...#...#\n"
            "..#...#...#\n"
            "..#...#...#\n"
            ".###..#####\n"
            "...........\n");
  canvas.Text(-3, 200, "outside", {}, /*bold=*/true);
  canvas.Line({{-10, -10}, {1000, 1e6}}, 2, {});
  EXPECT_EQ(canvas.pixels().size(), 600u);
}

TEST(MetricNames, TheFirstThatFitsCounts) {
  const std::pair<const char*, const char*> cases[] = {
      {"loss/train/total", "loss/train/total"},
      {"loss/train/mlm", "loss/train/<part>"},
      {"metrics/train/CrossEntropy", "metrics/train/<Metric>"},
      {"metrics/lambada/0-shot/InContextLearningLMAccuracy", "metrics/<label>/<n>-shot/<Metric>"},
      {"metrics/eval/MulticlassAccuracy", "metrics/<label>/<Metric>"},
      {"lr-DecoupledAdamW/group0", "lr-<Optimizer>/group<i>"},
      {"l2_norm/grad/global", "l2_norm/grad/global"},
      {"l2_norm/grad/layers.0.weight", "l2_norm/grad/<parameter>"},
      {"memory/peak_reserved_mem_avg", "memory/<what>_avg"},
      {"memory/peak_reserved_mem", "memory/<what>"}};
  for (const auto& [name, expected] : cases) {
    ASSERT_NE(FindMeaning(name), nullptr) << name;
    EXPECT_EQ(FindMeaning(name)->name, expected);
  }
  for (const char* name : {"", "mine", "loss/train/", "xloss/train/total"})
    EXPECT_EQ(FindMeaning(name), nullptr) << name;
}

TEST(SvgPlot, EscapesNamesAndBreaksLinesAtGaps) {
  const std::string svg = SvgPlot({{"<a&\"'>", {{0, 1}, {1, 2}, {2, kNaN}, {3, 1}}}, {"b", {}}}, {.title = "</svg>"});
  EXPECT_THAT(svg, HasSubstr("&lt;a&amp;&quot;&#39;&gt;"));
  EXPECT_THAT(svg, HasSubstr("&lt;/svg&gt;"));
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(svg, "h0")).size(), 3u);  // two strokes begin
}

TEST(ReportPage, HasEverythingAndRunsNothingOfARunsNames) {
  TempDir dir;
  const std::string path = dir.Path("metrics.jsonl");
  std::ofstream(path) << "{\"time/batch\":1,\"wall\":100,\"generation\":1,\"<script>\":1}\n"
                      << "{\"time/batch\":2,\"wall\":103,\"generation\":1,\"<script>\":2}\n"
                      << "{\"time/batch\":3,\"wall\":110,\"generation\":2,\"<script>\":3}\n"
                      << "{\"time/batch\":4,\"wall\":112,\"generation\":2,\"<script>\":4}\n";
  MetricsReader reader({.path = path});
  ASSERT_TRUE(reader.Poll().ok());
  ReportInput input;
  input.run.name = "<img src=x onerror=alert(1)>";
  input.run.wall_seconds = 20;
  input.run.metrics = {{"<script>", 4}};
  input.run.generations = {{.generation = 1,
                            .end_step = 2,
                            .cause = "<b>cause",
                            .ended = "\" onclick=",
                            .first_cause = "rank 1 was killed"}};
  input.config = "model: </pre><script>";
  input.tables = {"{\"table\":\"gen\",\"columns\":[\"prompt\"],\"data\":[[\"<i>\"]]}", "{", "[]", "{\"table\":1}"};
  const std::string page = ReportPage(input, reader);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("\" onclick")));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, Not(HasSubstr("<i>&")));
  EXPECT_THAT(page, Not(HasSubstr("http://w3")));
  for (const char* part : {"Curves", "Generations", "rank 1 was killed", "Configuration", "Samples", "&lt;i&gt;",
                           "stroke-dasharray", "default-src 'none'"})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_DOUBLE_EQ(KeptShare(input.run, reader.rows()), 5.0 / 20);
}

}  // namespace
}  // namespace composer
