// Runs the trainer for real under the profiler.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/profiler/profiler.h"
#include "trainer/profiler/trace_merge.h"

namespace composer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// 5 batches per epoch with 2 microbatches each; the second and third batch of the first epoch are recorded.
TrainerOptions ProfiledRun(const TempDir& folder, ProfilerOptions profiler = {}) {
  TrainerOptions options = SmallRun();
  options.run_folder = folder.path();
  options.run_name = "profiled";
  options.device_train_microbatch_size = 4;
  profiler.schedule = CyclicSchedule{.active = 2};
  options.callbacks.push_back(std::make_unique<Profiler>(profiler));
  return options;
}

struct Slice {
  std::string name, category;
  int64_t begin, end;  // nanoseconds
};

// Returns the complete events of a row, ordered by time, the longer first.
std::vector<Slice> Slices(const Json& trace, int64_t tid, int rank = 0) {
  std::vector<Slice> slices;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["tid"] != tid || event["pid"] != rank) continue;
    // These are microseconds with three decimals.
    const int64_t begin = std::llround(1e3 * event["ts"].get<double>());
    slices.push_back({event["name"], event["cat"], begin, begin + std::llround(1e3 * event["dur"].get<double>())});
  }
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  return slices;
}

int64_t TrainingRow(const Json& trace) {
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name" && event["args"]["name"] == "training loop") return event["tid"];
  }
  return -1;
}

// Slices that overlap must nest completely, because a viewer drops those that do not.
void ExpectNested(const std::vector<Slice>& slices) {
  std::vector<Slice> open;
  for (const Slice& slice : slices) {
    while (!open.empty() && open.back().end <= slice.begin) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(slice.end, open.back().end) << slice.name << " sticks out of " << open.back().name;
    }
    open.push_back(slice);
  }
}

std::map<std::string, int> Counts(const std::vector<Slice>& slices) {
  std::map<std::string, int> counts;
  for (const Slice& slice : slices) ++counts[slice.name];
  return counts;
}

// Returns the names of the operators that lie in a slice of this name.
std::vector<std::string> OpsIn(const std::vector<Slice>& slices, const std::string& name) {
  std::vector<std::string> ops;
  for (const Slice& outer : slices) {
    if (outer.name != name) continue;
    for (const Slice& op : slices) {
      if (op.category == "operator" && op.begin >= outer.begin && op.end <= outer.end) ops.push_back(op.name);
    }
  }
  return ops;
}

TEST(ProfiledRun, ARooflineIsWrittenBesideTheTraceAndNotMergedWithIt) {
  const TempDir folder;
  ProfilerOptions profiler;
  profiler.roofline = true;
  ASSERT_TRUE(Train(ProfiledRun(folder, profiler)).status.ok());
  const Json roofline = Json::parse(ReadFile(folder.Path("traces/ep0-ba3-rank0.roofline.json")).value());
  EXPECT_EQ(roofline["batches"], 2);
  EXPECT_GT(roofline["peaks"]["fp32_flops"], 1e8);
  EXPECT_GT(roofline["batch_seconds"], 0);
  EXPECT_THAT(ReadFile(folder.Path("traces/ep0-ba3-rank0.roofline.txt")).value(), HasSubstr("% of the machine's peak"));
  EXPECT_EQ(
      TracesIn(folder.Path("traces")).value(),
      (std::vector<std::string>{folder.Path("traces/ep0-ba3-rank0.json"), folder.Path("traces/ep1-ba8-rank0.json")}));
}

// Counts what it is given, and fails once.
class CountingHandler final : public TraceHandler {
 public:
  explicit CountingHandler(std::vector<std::string>& seen) : seen_(seen) {}
  std::string name() const override { return "CountingHandler"; }
  absl::Status Take(const RecordedWindow& recorded) override {
    EXPECT_TRUE(PathExists(recorded.trace_path));
    for (const SpanRecord& span : recorded.window.spans) {
      if (span.name->category == "mine") seen_.push_back(std::string(span.name->name));
    }
    return absl::InternalError("a handler's error ends no run");
  }
  absl::Status Close() override {
    seen_.push_back("closed");
    return absl::OkStatus();
  }

 private:
  std::vector<std::string>& seen_;
};

TEST(ProfiledRun, HandlersGetEachWindowWithTheUsersInstantsAndCounters) {
  static constexpr TraceName kInstant{"my instant", "mine"}, kCounter{"my counter", "mine"};
  const TempDir folder;
  std::vector<std::string> seen;
  ProfilerOptions profiler;
  profiler.trace_handlers = {std::make_shared<CountingHandler>(seen),
                             std::make_shared<TensorBoardTraceHandler>("{run_folder}/tb/{run_name}")};
  TrainerOptions options = ProfiledRun(folder, profiler);
  options.max_duration = Time::Epochs(1);
  AddCallback(options, {Event::kBatchStart}, [](State& state) {
    if (state.tracer == nullptr || state.timestamp.batch != 1) return;
    state.tracer->Instant(kInstant);
    state.tracer->Counter(kCounter, 7);
  });
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_THAT(seen, testing::ElementsAre("my instant", "my counter", "closed"));
  const std::string ours = ReadFile(folder.Path("traces/ep0-ba3-rank0.json")).value();
  EXPECT_THAT(ours, HasSubstr("\"my counter\":7"));
  const std::vector<std::string> files = *ListDir(folder.Path("tb/profiled"));
  ASSERT_EQ(files.size(), 1u);
  EXPECT_TRUE(absl::StartsWith(files[0], "rank0.") && absl::EndsWith(files[0], ".pt.trace.json"));
  const Json trace = Json::parse(ReadFile(folder.Path("tb/profiled/" + files[0])).value());
  std::map<std::string, int> counts = Counts(Slices(trace, TrainingRow(trace)));
  EXPECT_EQ(counts["ProfilerStep#1"] + counts["ProfilerStep#2"], 2);
  EXPECT_EQ(counts["aten::addmm"], 8);
  EXPECT_THAT(ours, testing::Not(HasSubstr("ProfilerStep")));
}

TEST(ProfiledRun, SpansNestAndOperatorsLieInTheirPartOfTheStep) {
  const TempDir folder;
  ASSERT_TRUE(Train(ProfiledRun(folder)).status.ok());
  const Json trace = Json::parse(ReadFile(folder.Path("traces/ep0-ba3-rank0.json")).value());
  const int64_t row = TrainingRow(trace);
  ASSERT_GT(row, 0);
  const std::vector<Slice> slices = Slices(trace, row);
  ExpectNested(slices);

  std::map<std::string, int> counts = Counts(slices);
  const std::vector<Slice> batches = Slices(trace, TraceRow::Batches().tid);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].name, "epoch 0 batch 1");
  EXPECT_EQ(batches[1].name, "epoch 0 batch 2");
  for (const Slice& slice : slices) {
    if (slice.name != "forward" && slice.name != "backward") continue;
    EXPECT_TRUE(std::ranges::any_of(
        batches, [&](const Slice& batch) { return batch.begin <= slice.begin && slice.end <= batch.end; }));
  }
  EXPECT_EQ(counts["dataloader"], 2);
  EXPECT_EQ(counts["forward"], 4);
  EXPECT_EQ(counts["loss"], 4);
  EXPECT_EQ(counts["backward"], 4);
  EXPECT_EQ(counts["optimizer_step"], 2);
  EXPECT_EQ(counts["event/before_forward"], 4);
  EXPECT_EQ(counts["event/batch_start"], 2);
  EXPECT_EQ(counts["event/batch_end"], 2);
  EXPECT_EQ(counts["callback/Profiler/event/batch_end"], 2);
  EXPECT_EQ(counts["aten::addmm"], 8);  // 2 layers, 2 microbatches, 2 batches

  EXPECT_EQ(std::ranges::count(OpsIn(slices, "forward"), "aten::addmm"), 8);
  EXPECT_EQ(std::ranges::count(OpsIn(slices, "backward"), "AddmmBackward0"), 8);
  EXPECT_EQ(std::ranges::count(OpsIn(slices, "backward"), "aten::addmm"), 0);
  EXPECT_THAT(OpsIn(slices, "optimizer_step"), Contains(HasSubstr("aten::")));
}

TEST(ProfiledRun, SecondEpochIsRecordedToo) {
  const TempDir folder;
  ASSERT_TRUE(Train(ProfiledRun(folder)).status.ok());
  EXPECT_EQ(ListDir(folder.Path("traces")).value(),
            (std::vector<std::string>{"ep0-ba3-rank0.json", "ep0-ba3-rank0.memory.html", "ep0-ba3-rank0.verdict.txt",
                                      "ep1-ba8-rank0.json", "ep1-ba8-rank0.memory.html", "ep1-ba8-rank0.verdict.txt",
                                      "merged_trace.json"}));
  const Json merged = Json::parse(ReadFile(folder.Path("traces/merged_trace.json")).value());
  std::map<std::string, int> counts = Counts(Slices(merged, TrainingRow(merged)));
  EXPECT_EQ(Slices(merged, TraceRow::Batches().tid).size(), 4u);
  EXPECT_EQ(counts["forward"], 8);
}

TEST(ProfiledRun, VerdictAndMemoryPageAreWritten) {
  const TempDir folder;
  ASSERT_TRUE(Train(ProfiledRun(folder)).status.ok());
  const std::string verdict = ReadFile(folder.Path("traces/ep0-ba3-rank0.verdict.txt")).value();
  EXPECT_THAT(verdict, HasSubstr("ep0-ba3-rank0: 2 batches, "));
  EXPECT_THAT(verdict, HasSubstr("aten::addmm"));
  double total = 0;
  for (absl::string_view line : absl::StrSplit(verdict, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    double share = 0;
    if (words.size() >= 3 && words.back() == "%" && absl::SimpleAtod(words[words.size() - 2], &share)) total += share;
  }
  EXPECT_NEAR(total, 100, 0.4);  // seven shares, rounded to 0.1
  const std::string page = ReadFile(folder.Path("traces/ep0-ba3-rank0.memory.html")).value();
  EXPECT_THAT(page, HasSubstr("CPU tensors"));
  EXPECT_THAT(page, HasSubstr("resident memory of the process"));
  EXPECT_THAT(page, HasSubstr("[\"backward\","));
}

TEST(ProfiledRun, ShapesAndCountersWhenAskedFor) {
  const TempDir folder;
  ProfilerOptions options;
  options.ops.record_shapes = true;
  options.system = {.cpu = true, .memory = true, .interval = absl::Milliseconds(1)};
  ASSERT_TRUE(Train(ProfiledRun(folder, options)).status.ok());
  const Json trace = Json::parse(ReadFile(folder.Path("traces/ep0-ba3-rank0.json")).value());
  bool has_shapes = false, has_flops = false, has_memory = false;
  for (const Json& event : trace["traceEvents"]) {
    const Json args = event.value("args", Json::object());
    if (event["name"] == "aten::addmm") {
      has_shapes |= args.contains("shapes") && args["shapes"][1] == Json({4, 8});
      has_flops |= args.contains("flops");
    }
    has_memory |= event["ph"] == "C" && event["name"] == "memory/virtual" && args.contains("available_gb");
  }
  EXPECT_TRUE(has_shapes);
  EXPECT_TRUE(has_flops);
  EXPECT_TRUE(has_memory);
}

TEST(ProfiledRun, ChangesNothingInTheTraining) {
  const TempDir folder;
  const RunResult profiled = Train(ProfiledRun(folder));
  TrainerOptions plain = SmallRun();
  plain.device_train_microbatch_size = 4;
  EXPECT_EQ(LargestDifference(profiled, Train(std::move(plain))), 0);
}

// Only spans are recorded, because ranks are threads here and the process has only one Kineto.
TEST(ProfiledRun, TwoRanksAlignInOneFileAndMakeNoCollectiveForIt) {
  const TempDir folder;
  const auto run = [&](bool profile) {
    return TrainOnRanks(2, [&](int rank) {
      ProfilerOptions profiler;
      profiler.ops = {.record_shapes = false, .profile_memory = false, .with_flops = false};
      TrainerOptions options = ProfiledRun(folder, profiler);
      if (!profile) options.callbacks.clear();
      return options;
    });
  };
  const std::vector<RunResult> plain = run(false), profiled = run(true);
  for (const RunResult& result : profiled) ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(profiled[0].num_collectives, plain[0].num_collectives);
  const Json merged = Json::parse(ReadFile(folder.Path("traces/merged_trace.json")).value());
  EXPECT_EQ(merged["composer"]["merged"].size(), 4u);
  std::vector<std::vector<Slice>> waits(2);
  for (int rank = 0; rank < 2; ++rank) {
    std::map<int64_t, bool> rows;
    for (const Json& event : merged["traceEvents"]) {
      if (event["ph"] == "X" && event["pid"] == rank) rows[event["tid"].get<int64_t>()] = true;
    }
    for (const auto& [row, unused] : rows) {
      const std::vector<Slice> slices = Slices(merged, row, rank);
      ExpectNested(slices);
      for (const Slice& slice : slices) {
        if (slice.name == "reduce_gradients") waits[static_cast<size_t>(rank)].push_back(slice);
      }
    }
  }
  ASSERT_EQ(waits[0].size(), 4u);
  ASSERT_EQ(waits[1].size(), 4u);
  // No rank leaves a reduction before the other has reached its batch, so the clocks agree.
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_GT(waits[0][i].end, waits[1][i - 1].begin);
    EXPECT_GT(waits[1][i].end, waits[0][i - 1].begin);
  }
}

// One rank of two is asked; both record the same batches.
TEST(ProfiledRun, ARequestToOneRankIsFollowedByAllAtOnce) {
  struct Asks final : Supervision {
    bool TakeProfileRequest() override { return ++calls == 1; }
    int calls = 0;
  };
  const TempDir folder;
  Asks asks;
  const auto results = TrainOnRanks(2, [&](int rank) {
    TrainerOptions options = SmallRun();
    options.run_folder = folder.path();
    ProfilerOptions profiler;
    profiler.schedule = [](const SchedulePosition&) { return ProfilerAction::kSkip; };
    profiler.ops = {.record_shapes = false, .profile_memory = false, .with_flops = false};
    profiler.memory_filename = "";
    options.callbacks.push_back(std::make_unique<Profiler>(profiler));
    if (rank == 1) options.supervision = &asks;
    return options;
  });
  for (const RunResult& result : results) EXPECT_TRUE(result.status.ok()) << result.status;
  // The first step carries the vote; the second batch warms up; the epoch of 5 ends in the window.
  EXPECT_THAT(*ListDir(folder.Path("traces")),
              ::testing::IsSupersetOf({"ep0-ba5-rank0.json", "ep0-ba5-rank1.json", "merged_trace.json"}));
}

}  // namespace
}  // namespace composer
