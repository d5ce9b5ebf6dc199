// Drives the profiler by hand, without a trainer.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

// Records only spans and writes their files: no operators, no thread.
ProfilerOptions SpansOnly(const CyclicSchedule& schedule) {
  ProfilerOptions options;
  options.schedule = schedule;
  options.ops = {.record_shapes = false, .profile_memory = false, .with_flops = false};
  options.system = {.cpu = false};
  options.memory_filename = "";
  return options;
}

struct Driver {
  explicit Driver(const ProfilerOptions& options, int world_size = 1, int rank = 0) : profiler(options, clock) {
    state.identity.run_folder = folder.path();
    state.identity.run_name = "run";
    state.identity.rank = rank;
    state.identity.world_size = world_size;
    state.clock.batches_per_epoch = 10;
  }
  void Fire(Event event) { EXPECT_TRUE(profiler.Run(event, state, logger).ok()); }
  // Trains `count` batches, and records for each whether it was traced.
  void Batches(int count) {
    for (int i = 0; i < count; ++i) {
      Fire(Event::kBeforeDataloader);
      traced += state.tracer != nullptr ? 'T' : '-';
      {
        const TraceSpan span(state.tracer, kForwardSpan);
      }
      state.timestamp.ToNextBatch(4, 0, absl::ZeroDuration());
      Fire(Event::kBatchEnd);
    }
  }
  std::vector<std::string> Files() const { return ListDir(folder.Path("traces")).value_or(std::vector<std::string>{}); }
  Json Trace(const std::string& name) const { return Json::parse(ReadFile(folder.Path("traces/" + name)).value()); }

  TempDir folder;
  ManualClock clock;
  State state;
  Logger logger;
  Profiler profiler;
  std::string traced;
};

int CountNamed(const Json& trace, absl::string_view name) {
  int count = 0;
  for (const Json& event : trace["traceEvents"]) {
    count += event.contains("name") && absl::StrContains(event["name"].get<std::string>(), name) ? 1 : 0;
  }
  return count;
}

TEST(Profiler, RecordsWhatTheScheduleSays) {
  Driver run(SpansOnly({.skip_first = 1, .wait = 1, .warmup = 1, .active = 2, .repeat = 2}));
  run.Batches(10);
  EXPECT_EQ(run.traced, "--TTT-TTT-");
  EXPECT_EQ(run.state.tracer, nullptr);
  EXPECT_THAT(run.Files(), ElementsAre("ep0-ba5-rank0.json", "ep0-ba5-rank0.verdict.txt", "ep0-ba9-rank0.json",
                                       "ep0-ba9-rank0.verdict.txt"));
  const Json trace = run.Trace("ep0-ba9-rank0.json");
  EXPECT_EQ(CountNamed(trace, "forward"), 2);  // excluding those of the warm-up
  EXPECT_EQ(CountNamed(trace, "epoch 0 batch 7"), 1);
  EXPECT_EQ(CountNamed(trace, "epoch 0 batch 8"), 1);
}

TEST(Profiler, TheEndOfAnEpochWritesTheWindow) {
  Driver run(SpansOnly({.wait = 6, .warmup = 1, .active = 100}));
  run.Batches(10);
  run.Fire(Event::kBeforeDataloader);  // the one at which the loader is empty
  EXPECT_EQ(run.traced, "------TTTT");
  EXPECT_EQ(run.state.tracer, nullptr);
  EXPECT_EQ(CountNamed(run.Trace("ep0-ba10-rank0.json"), "forward"), 3);
}

TEST(Profiler, TheWarmUpOfAnEpochsEndIsForgotten) {
  Driver run(SpansOnly({.wait = 8, .warmup = 5}));
  run.Batches(10);
  run.Fire(Event::kBeforeDataloader);
  EXPECT_EQ(run.traced, "--------TT");
  EXPECT_EQ(run.state.tracer, nullptr);
  EXPECT_THAT(run.Files(), IsEmpty());
}

TEST(Profiler, SkipsFromWhereTheEpochWasResumed) {
  Driver run(SpansOnly({.skip_first = 1, .warmup = 0, .active = 1}));
  run.state.timestamp.batch = run.state.timestamp.batch_in_epoch = 7;
  run.Fire(Event::kAfterLoad);
  run.Batches(3);
  run.state.timestamp.ToNextEpoch();
  run.Batches(3);
  EXPECT_EQ(run.traced, "-T--T-");
}

TEST(Profiler, RecordsWhatIsAskedForWhateverTheScheduleSays) {
  Driver run(SpansOnly({.skip_first = 1000}));
  run.Batches(2);
  run.state.requests.profile = true;
  run.Batches(8);
  EXPECT_FALSE(run.state.requests.profile) << "taken";
  EXPECT_EQ(run.traced, "--TTTTT---");
  EXPECT_THAT(run.Files(), ElementsAre("ep0-ba7-rank0.json", "ep0-ba7-rank0.verdict.txt"));
  EXPECT_EQ(CountNamed(run.Trace("ep0-ba7-rank0.json"), "forward"), 4);
}

TEST(Profiler, TheScheduleGoesOnAfterWhatWasAskedFor) {
  Driver run(SpansOnly({.warmup = 0, .active = 8}));
  run.Batches(1);
  run.state.requests.profile = true;
  run.Batches(9);
  EXPECT_EQ(run.traced, "TTTTTTTT--");
  EXPECT_THAT(run.Files(), ElementsAre("ep0-ba1-rank0.json", "ep0-ba1-rank0.verdict.txt", "ep0-ba6-rank0.json",
                                       "ep0-ba6-rank0.verdict.txt", "ep0-ba8-rank0.json", "ep0-ba8-rank0.verdict.txt"));
}

TEST(Profiler, AnErrorInsideAWindowStillWritesIt) {
  Driver run(SpansOnly({.warmup = 0, .active = 5}));
  run.Batches(2);
  run.Fire(Event::kBeforeDataloader);
  ASSERT_TRUE(run.profiler.Close(run.state, run.logger).ok());
  EXPECT_EQ(run.state.tracer, nullptr);
  EXPECT_THAT(run.Files(), ElementsAre("ep0-ba2-rank0.json", "ep0-ba2-rank0.verdict.txt", "merged_trace.json"));
  EXPECT_EQ(CountNamed(run.Trace("ep0-ba2-rank0.json"), "epoch 0 batch 2"), 1);  // cut off at its end
}

TEST(Profiler, KeepsAsManyTracesAsAskedFor) {
  ProfilerOptions options = SpansOnly({.warmup = 0, .active = 1, .repeat = 0});
  options.num_traces_to_keep = 2;
  options.merged_trace_filename = "";
  Driver run(options);
  run.Batches(5);
  run.Fire(Event::kFitEnd);
  EXPECT_THAT(run.Files(), ElementsAre("ep0-ba4-rank0.json", "ep0-ba4-rank0.verdict.txt", "ep0-ba5-rank0.json",
                                       "ep0-ba5-rank0.verdict.txt"));
}

TEST(Profiler, WaitsForTheOtherRanksUpToALimit) {
  ProfilerOptions options = SpansOnly({.warmup = 0, .active = 1});
  options.merge_timeout = absl::Seconds(3);
  Driver run(options, /*world_size=*/2);
  run.Batches(1);
  run.Fire(Event::kFitEnd);
  EXPECT_GE(run.clock.Now(), absl::UnixEpoch() + absl::Seconds(3));
  EXPECT_EQ(run.Trace("merged_trace.json")["composer"]["merged"], Json{"ep0-ba1-rank0.json"});
}

TEST(Profiler, OthersThanRank0DoNotMerge) {
  Driver run(SpansOnly({.warmup = 0, .active = 1}), /*world_size=*/2, /*rank=*/1);
  run.Batches(1);
  run.Fire(Event::kFitEnd);
  EXPECT_THAT(run.Files(), ElementsAre("ep0-ba1-rank1.json", "ep0-ba1-rank1.verdict.txt"));
  EXPECT_EQ(run.clock.Now(), absl::UnixEpoch());
}

TEST(Profiler, AFolderThatCannotBeWrittenStopsNothing) {
  ProfilerOptions options = SpansOnly({.warmup = 0, .active = 1, .repeat = 0});
  options.folder = "/proc/nothing";
  Driver run(options);
  run.Batches(3);
  run.Fire(Event::kFitEnd);
  EXPECT_EQ(run.traced, "TTT");
}

TEST(ProfilerOptions, AreChecked) {
  const auto message = [](const std::function<void(ProfilerOptions&)>& change) {
    ProfilerOptions options;
    change(options);
    return std::string(Validate(options).message());
  };
  EXPECT_EQ(message([](ProfilerOptions& o) {}), "");
  EXPECT_THAT(message([](ProfilerOptions& o) { o.schedule = CyclicSchedule{.active = 0}; }),
              HasSubstr("schedule.active"));
  EXPECT_THAT(message([](ProfilerOptions& o) { o.filename = "trace.json"; }), HasSubstr("must contain {rank}"));
  EXPECT_THAT(message([](ProfilerOptions& o) { o.filename = "{rank}.txt"; }), HasSubstr("must end in .json"));
  EXPECT_THAT(message([](ProfilerOptions& o) { o.folder = "{ruN}"; }), HasSubstr("unknown placeholder {ruN}"));
  EXPECT_THAT(message([](ProfilerOptions& o) { o.merged_trace_filename = "{rank}"; }), HasSubstr("no placeholders"));
  EXPECT_THAT(message([](ProfilerOptions& o) { o.num_traces_to_keep = 0; }), HasSubstr("num_traces_to_keep: 0"));
  EXPECT_THAT(message([](ProfilerOptions& o) { o.system.interval = absl::ZeroDuration(); }),
              HasSubstr("at least 0.001"));
}

}  // namespace
}  // namespace composer
