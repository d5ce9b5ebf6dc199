// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/memory_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "trainer/profiler/system_sampler.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<int64_t> Bytes(const MemoryCurve& curve) {
  std::vector<int64_t> bytes;
  for (const auto& point : curve.points) bytes.push_back(point.bytes);
  return bytes;
}

TEST(MemoryCurves, AddUpByDevice) {
  Window window;
  window.begin_ns = 1000;
  window.memory = {{1300, -50, -1}, {1100, 100, -1}, {1200, 7, 0}};  // Kineto does not sort
  window.memory_at_begin = {{0, 1000}};
  window.counters = {{1500, std::string(kResidentCounter), {{"resident_gb", 2.0}}},
                     {1400, "cpu", {{"cpu_percent", 3}}}};
  const std::vector<MemoryCurve> curves = MemoryCurves(window);
  ASSERT_EQ(curves.size(), 3u);
  EXPECT_EQ(curves[0].name, "CPU tensors (change since the window began)");
  EXPECT_EQ(Bytes(curves[0]), (std::vector<int64_t>{0, 100, 50}));
  EXPECT_EQ(curves[1].name, "GPU 0 tensors");
  EXPECT_EQ(Bytes(curves[1]), (std::vector<int64_t>{1000, 1007}));
  EXPECT_EQ(curves[2].name, "resident memory of the process");
  EXPECT_EQ(Bytes(curves[2]), (std::vector<int64_t>{2'000'000'000}));
}

TEST(MemoryCurves, ThinningKeepsPeaks) {
  Window window;
  for (int i = 0; i < 1000; ++i) {
    window.memory.push_back({i, 5, -1});
    if (i == 500) window.memory.push_back({i, 1'000'000, -1});
    if (i == 500) window.memory.push_back({i, -1'000'000, -1});
  }
  const std::vector<MemoryCurve> curves = MemoryCurves(window, 10);
  ASSERT_EQ(curves[0].points.size(), 10u);
  const std::vector<int64_t> bytes = Bytes(curves[0]);
  EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), 1'002'505);
}

TEST(MemoryPage, IsOneSelfContainedFile) {
  Window window;
  window.end_ns = 2'000'000;
  window.training_thread = 1;
  window.memory = {{500'000, 64, -1}};
  window.spans = {{&kForwardSpan, 100'000, 900'000, 0, 1, SpanRecord::Kind::kSpan},
                  {&kForwardSpan, 0, 1, 0, 2, SpanRecord::Kind::kSpan}};  // from another thread
  const std::string page = MemoryPage(window, "<run> & rank0");
  EXPECT_THAT(page, HasSubstr("<h1>Memory: &lt;run> &amp; rank0</h1>"));
  EXPECT_THAT(page, HasSubstr("points:[[0.000000,0],[0.000500,64],]"));
  EXPECT_THAT(page, HasSubstr("const bands=[\n[\"forward\",0.000100,0.000900],\n];"));
  for (const char* outside : {"http:", "https:", "src=", "@import"}) EXPECT_THAT(page, Not(HasSubstr(outside)));
  EXPECT_EQ(MemoryPage(Window(), "x"), "");
}

}  // namespace
}  // namespace composer
