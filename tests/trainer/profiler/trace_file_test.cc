// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/trace_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/profiler/trace_merge.h"
#include "trainer/profiler/trace_tool.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr int64_t kDay = int64_t{86'400} * 1'000'000'000;

// Writes one span named `name` at `time_ns`, of a rank whose run began on day `day`.
std::string WriteOne(const TempDir& folder, const std::string& file, int rank, int64_t day, int64_t time_ns) {
  const std::string path = folder.Path(file);
  auto out = TraceFileWriter::Create(path, {day * kDay, rank, 2, "run"}).value();
  out->ProcessName(absl::StrCat("rank ", rank));
  out->Complete("work", "forward", time_ns, 2500, TraceRow::Thread(1));
  EXPECT_FALSE(PathExists(path));  // not before it is complete
  EXPECT_TRUE(out->Finish().ok());
  return path;
}

Json Read(const std::string& path) { return Json::parse(ReadFile(path).value()); }

Json FindSpan(const Json& trace, int rank) {
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["pid"] == rank) return event;
  }
  return {};
}

TEST(TraceFile, WritesChromesFormat) {
  const TempDir folder;
  const std::string path = folder.Path("t.json");
  const int64_t base = 100 * kDay, now = base + 1'234'567;
  auto out = TraceFileWriter::Create(path, {base, 3, 4, "a \"run\" ü"}).value();
  out->RowName(TraceRow::Thread(1), "training loop", 0);
  out->Complete("for\nward", "forward", now, 42, TraceRow::Thread(1), "\"flops\":7");
  out->Instant("here", "mark", now, TraceRow::Thread(1));
  out->Counter("cpu", now, {{"cpu_percent", 12.5}, {"nothing", NAN}});
  out->Arrow(9, now, TraceRow::Thread(1), now + 1000, TraceRow::Stream(0, 7));
  ASSERT_TRUE(out->Finish().ok());
  const Json trace = Read(path);
  EXPECT_EQ(trace["baseTimeNanoseconds"], base);
  EXPECT_EQ(trace["composer"], (Json{{"rank", 3}, {"world_size", 4}, {"run_name", "a \"run\" ü"}}));
  const Json& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events[0], (Json{{"ts", 0.0},
                             {"ph", "M"},
                             {"pid", 3},
                             {"tid", 1},
                             {"name", "thread_name"},
                             {"args", {{"name", "training loop"}}}}));
  EXPECT_EQ(events[2], (Json{{"ts", 1234.567},
                             {"ph", "X"},
                             {"pid", 3},
                             {"tid", 1},
                             {"dur", 0.042},
                             {"name", "for\nward"},
                             {"cat", "forward"},
                             {"args", {{"flops", 7}}}}));
  EXPECT_EQ(events[3]["ph"], "i");
  EXPECT_EQ(events[4]["args"], (Json{{"cpu_percent", 12.5}}));
  EXPECT_EQ(events[5]["ph"], "s");
  EXPECT_EQ(events[6]["tid"], 1000007);
}

TEST(TraceFile, BadBytesAreReplaced) {
  std::string text;
  AppendJsonString(&text, "a\xff\x01z");
  EXPECT_EQ(Json::parse(text).get<std::string>(), "a\xEF\xBF\xBD\x01z");
}

TEST(TraceFile, LeavesNothingWhenNotFinished) {
  const TempDir folder;
  {
    auto out = TraceFileWriter::Create(folder.Path("t.json"), {}).value();
  }
  EXPECT_TRUE(ListDir(folder.path()).value().empty());
  EXPECT_FALSE(TraceFileWriter::Create("/nonexistent/t.json", {}).ok());
}

TEST(TraceFile, BaseIsMidnight) {
  EXPECT_EQ(TraceBase(100 * kDay), 100 * kDay);
  EXPECT_EQ(TraceBase(101 * kDay - 1), 100 * kDay);
}

TEST(MergeTraces, BringsDifferentDaysOnOneClock) {
  const TempDir folder;
  const int64_t midnight = 101 * kDay;
  const std::string a = WriteOne(folder, "a.json", 0, 100, midnight - 5000);
  const std::string b = WriteOne(folder, "b.json", 1, 101, midnight + 7000);
  const std::string merged = folder.Path("m.json");
  ASSERT_TRUE(MergeTraces({a, b}, merged).ok());
  const Json trace = Read(merged);
  EXPECT_EQ(trace["baseTimeNanoseconds"], 100 * kDay);
  EXPECT_EQ(trace["traceEvents"].size(), 6u);
  const double t0 = FindSpan(trace, 0)["ts"], t1 = FindSpan(trace, 1)["ts"];
  EXPECT_DOUBLE_EQ(t0, 86'400e6 - 5);
  EXPECT_NEAR(t1 - t0, 12, 1e-4);
  EXPECT_EQ(trace["composer"]["merged"], (Json{"a.json", "b.json"}));
}

TEST(MergeTraces, RefusesWhatIsNoWholeTrace) {
  const TempDir folder;
  const std::string a = WriteOne(folder, "a.json", 0, 100, 100 * kDay);
  const std::string text = ReadFile(a).value();
  const std::string merged = folder.Path("m.json");
  const struct {
    std::string content;
    const char* expected;
  } kRows[] = {{"", "is not a trace that Composer wrote"},
               {"{\"traceEvents\":[]}", "is not a trace that Composer wrote"},
               {text.substr(0, text.size() - 4), "is cut off"}};
  for (const auto& row : kRows) {
    const std::string bad = folder.Path("bad.json");
    ASSERT_TRUE(AtomicWriteFile(bad, row.content).ok());
    const absl::Status status = MergeTraces({a, bad}, merged);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(row.expected), absl::string_view::npos) << status;
    EXPECT_FALSE(PathExists(merged));
  }
  EXPECT_EQ(MergeTraces({folder.Path("none.json")}, merged).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(MergeTraces({a}, merged).ok());
  EXPECT_FALSE(MergeTraces({a, merged}, folder.Path("twice.json")).ok());
}

TEST(TraceTool, MergesAFolder) {
  const TempDir folder;
  WriteOne(folder, "ep0-ba5-rank0.json", 0, 100, 100 * kDay);
  WriteOne(folder, "ep0-ba5-rank1.json", 1, 100, 100 * kDay);
  ASSERT_TRUE(AtomicWriteFile(folder.Path("other.json"), "{}").ok());
  std::ostringstream out, err;
  for (int twice = 0; twice < 2; ++twice) {  // earlier merged files are not inputs
    EXPECT_EQ(RunTraceTool({"merge", folder.path()}, out, err), 0) << err.str();
    EXPECT_EQ(Read(folder.Path("merged_trace.json"))["composer"]["merged"].size(), 2u);
  }
  EXPECT_EQ(RunTraceTool({"merge", folder.path(), folder.Path("own.json")}, out, err), 0);
  EXPECT_TRUE(PathExists(folder.Path("own.json")));
}

TEST(TraceTool, SaysWhatIsWrong) {
  const TempDir empty;
  std::ostringstream out, err;
  EXPECT_EQ(RunTraceTool({"merge", empty.path()}, out, err), 64);
  EXPECT_EQ(RunTraceTool({"merge", "/nonexistent"}, out, err), 64);
  EXPECT_EQ(RunTraceTool({"mrege", empty.path()}, out, err), 64);
  EXPECT_EQ(RunTraceTool({}, out, err), 64);
  EXPECT_NE(err.str().find("no traces of Composer's in"), std::string::npos);
}

}  // namespace
}  // namespace composer
