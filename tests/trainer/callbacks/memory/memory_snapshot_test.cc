// Tests what is recorded, and the resulting file, which Python's unpickler and torch's own tool
// (torch/cuda/_memory_viz.py) read.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/memory/memory_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/format/json.h"
#include "checkpoint/torch_files/pickle_writer.h"
#include "tests/support/run_python.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/callbacks/callback_fixture.h"
#include "trainer/callbacks/memory/memory_pickle.h"

namespace composer {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Kind = AllocationEvent::Kind;

// Returns the pickle as JSON, converted by Python.
std::string PickleAsJson(const std::string& path) {
  return RunPythonScript("import json, pickle, sys; print(json.dumps(pickle.load(open(sys.argv[1], 'rb'))))", {path});
}

class PickleWriterTest : public ::testing::Test {
 protected:
  std::string Read(PickleWriter writer) {
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("x.pickle"), std::move(writer).Finish()).ok());
    return PickleAsJson(dir_.Path("x.pickle"));
  }
  TempDir dir_;
};

TEST_F(PickleWriterTest, NumbersOfEverySize) {
  PickleWriter writer;
  writer.BeginList();
  for (const int64_t number :
       {int64_t{0}, int64_t{-1}, int64_t{255}, int64_t{2147483647}, int64_t{-2147483648}, int64_t{2147483648},
        int64_t{140737488355327}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()})
    writer.Int(number);
  writer.EndList();
  EXPECT_EQ(Read(std::move(writer)),
            "[0, -1, 255, 2147483647, -2147483648, 2147483648, 140737488355327, -9223372036854775808, "
            "9223372036854775807]\n");
}

TEST_F(PickleWriterTest, TextsListsAndDictsInsideEachOther) {
  PickleWriter writer;
  writer.BeginDict();
  writer.Entry("a", "");
  writer.Entry("naïve \"text\"\n", 7);
  writer.String("list");
  writer.BeginList();
  writer.BeginDict(), writer.EndDict();
  writer.BeginList(), writer.EndList();
  writer.EndList();
  writer.EndDict();
  EXPECT_EQ(nlohmann::json::parse(Read(std::move(writer))),
            nlohmann::json({{"a", ""},
                            {"naïve \"text\"\n", 7},
                            {"list", nlohmann::json::array({nlohmann::json::object(), nlohmann::json::array()})}}));
}

// 64 bytes are allocated and kept, 32 are allocated and freed on a GPU, and one request fails.
AllocationHistory SmallHistory() {
  AllocationHistory history;
  history.stacks = {{"forward"}, {"aten::empty", "aten::addmm", "forward"}};
  const auto add = [&](Kind kind, uint64_t address, int64_t bytes, int device, int stack) {
    AllocationEvent event;
    event.kind = kind, event.address = address, event.bytes = bytes, event.device = device, event.stack = stack;
    event.microseconds = 1000 + static_cast<int64_t>(history.events.size());
    history.events.push_back(event);
  };
  add(Kind::kAlloc, 0x7fff00000000, 64, -1, 1);
  add(Kind::kAlloc, 0x100, 32, 0, 0);
  add(Kind::kFree, 0x100, 32, 0, 0);
  add(Kind::kOutOfMemory, 0, 5'000'000'000, 0, 0);
  return history;
}

TEST(MemoryPickleTest, HasTracesByDeviceAndWhatIsLeftAsSegments) {
  TempDir dir;
  ASSERT_TRUE(AtomicWriteFile(dir.Path("s.pickle"), MemorySnapshotPickle(SmallHistory())).ok());
  const auto snapshot = nlohmann::json::parse(PickleAsJson(dir.Path("s.pickle")));
  ASSERT_EQ(snapshot["device_traces"].size(), 2u);
  std::vector<std::string> actions;
  for (const auto& event : snapshot["device_traces"][0]) actions.push_back(event["action"]);
  EXPECT_THAT(actions, ElementsAre("alloc", "free_requested", "free_completed", "oom"));
  EXPECT_EQ(snapshot["device_traces"][0][3]["size"], 5'000'000'000);
  const auto& kept = snapshot["device_traces"][1][0];  // the CPU follows the GPUs
  EXPECT_EQ(kept["addr"], 0x7fff00000000);
  EXPECT_EQ(kept["time_us"], 1000);
  std::vector<std::string> frames;
  for (const auto& frame : kept["frames"]) frames.push_back(frame["name"]);
  EXPECT_THAT(frames, ElementsAre("aten::empty", "aten::addmm", "forward"));
  ASSERT_EQ(snapshot["segments"].size(), 1u);
  EXPECT_EQ(snapshot["segments"][0]["device"], 1);
  EXPECT_EQ(snapshot["segments"][0]["total_size"], 64);
  EXPECT_EQ(snapshot["segments"][0]["blocks"][0]["state"], "active_allocated");
}

TEST(MemoryPickleTest, TorchsToolReadsIt) {
  TempDir dir;
  ASSERT_TRUE(AtomicWriteFile(dir.Path("s.pickle"), MemorySnapshotPickle(SmallHistory())).ok());
  const std::string trace = RunPython({MEMORY_VIZ, "trace", dir.Path("s.pickle")});
  EXPECT_THAT(trace, HasSubstr("Device 0 ----------------\n4 entries\na = MEM[256:32.0B]\ndel a # 32.0B\n"
                               "# free completed for a 32.0B\nraise OutOfMemoryError # 4.7GiB requested"));
  EXPECT_THAT(trace, HasSubstr("Device 1 ----------------\n1 entries\na = seg_0[0:64.0B]\n"));
  EXPECT_THAT(RunPython({MEMORY_VIZ, "stats", dir.Path("s.pickle")}), HasSubstr("64.0B"));
  EXPECT_THAT(RunPython({MEMORY_VIZ, "trace_plot", dir.Path("s.pickle"), "-o", dir.Path("s.html")}), IsEmpty());
  EXPECT_THAT(ReadFile(dir.Path("s.html")).value(), HasSubstr("Active Memory Timeline"));
}

TEST(AllocationRecorderTest, SeesSizesOperationsAndPhases) {
  AllocationRecorder recorder(1000);
  ASSERT_TRUE(recorder.Start().ok());
  recorder.SetPhase("forward");
  {
    const at::Tensor tensor = torch::empty({1000}, torch::kFloat);
  }
  recorder.Stop();
  {
    const at::Tensor unseen = torch::empty({77777}, torch::kFloat);
  }
  const AllocationHistory history = recorder.History();
  const auto of = [&](Kind kind) {
    return std::find_if(history.events.begin(), history.events.end(),
                        [&](const auto& event) { return event.kind == kind && event.bytes == 4000; });
  };
  const auto alloc = of(Kind::kAlloc), free = of(Kind::kFree);
  ASSERT_TRUE(alloc != history.events.end() && free != history.events.end());
  EXPECT_EQ(alloc->address, free->address);
  EXPECT_LT(alloc - history.events.begin(), free - history.events.begin());
  EXPECT_EQ(alloc->device, -1);
  const auto& stack = history.stacks[static_cast<size_t>(alloc->stack)];
  EXPECT_THAT(stack, Contains("aten::empty"));
  EXPECT_EQ(stack.back(), "forward");
  for (const AllocationEvent& event : history.events) EXPECT_NE(event.bytes, 77777 * 4);
}

TEST(AllocationRecorderTest, TheNewestAreKept) {
  AllocationRecorder recorder(3);
  ASSERT_TRUE(recorder.Start().ok());
  for (const int64_t size : {100, 200, 300}) torch::empty({size}, torch::kByte);
  recorder.Stop();
  const AllocationHistory history = recorder.History();
  ASSERT_EQ(history.events.size(), 3u);
  EXPECT_EQ(history.dropped, 3);
  EXPECT_EQ(history.events[0].kind, Kind::kFree);
  EXPECT_EQ(history.events[1].bytes, 300);
}

TEST(AllocationRecorderTest, OneAtATimeAndNotBesideAProfiler) {
  {
    AllocationRecorder first(10), second(10);
    ASSERT_TRUE(first.Start().ok());
    EXPECT_EQ(second.Start().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_FALSE(second.running());
  }
  AllocationRecorder again(10);  // the first one's destructor has released the slot
  EXPECT_TRUE(again.Start().ok());
}

class MemorySnapshotTest : public CallbackTest {
 protected:
  MemorySnapshotTest() {
    state_.identity.run_folder = dir_.path(), state_.identity.rank = 3, state_.identity.run_name = "r";
  }
  // Runs a step that allocates `floats` in its forward pass.
  void StepOf(MemorySnapshot& callback, int64_t floats) {
    ASSERT_TRUE(Fire(callback, Event::kBatchStart).ok());
    ASSERT_TRUE(Fire(callback, Event::kBeforeForward).ok());
    torch::empty({floats}, torch::kFloat);
    ASSERT_TRUE(Fire(callback, Event::kBeforeBackward).ok());
    torch::empty({floats + 1}, torch::kFloat);
    Step(callback, absl::Seconds(1));
  }
  // Returns {bytes: innermost to outermost names} of the allocations in a file.
  std::map<int64_t, std::vector<std::string>> Allocations(const std::string& name) {
    std::map<int64_t, std::vector<std::string>> found;
    const std::string text = PickleAsJson(dir_.Path(name));
    const auto snapshot = ParseJson(text);
    if (snapshot.is_discarded()) ADD_FAILURE() << text;
    for (const auto& event : snapshot["device_traces"][0]) {
      if (event["action"] != "alloc") continue;
      auto& names = found[event["size"].get<int64_t>()];
      names.clear();
      for (const auto& frame : event["frames"]) names.push_back(frame["name"]);
    }
    return found;
  }
  std::vector<std::string> Files() {
    return PathExists(dir_.Path("traces")) ? ListDir(dir_.Path("traces")).value() : std::vector<std::string>();
  }
  TempDir dir_;
};

TEST_F(MemorySnapshotTest, RecordsTheBatchesOfItsIntervalOnce) {
  MemorySnapshot callback({.skip_batches = 1, .interval = Time::Batches(2)});
  StepOf(callback, 1000);  // skipped
  StepOf(callback, 2000);
  EXPECT_THAT(Files(), IsEmpty());
  StepOf(callback, 3000);
  ASSERT_THAT(Files(), ElementsAre("rank3.3.memory_snapshot.pickle"));
  StepOf(callback, 4000);
  ASSERT_TRUE(Fire(callback, Event::kFitEnd).ok());
  EXPECT_EQ(Files().size(), 1u);
  const auto found = Allocations("traces/rank3.3.memory_snapshot.pickle");
  for (const int64_t seen : {8000, 8004, 12000, 12004}) EXPECT_EQ(found.count(seen), 1u) << seen;
  for (const int64_t unseen : {4000, 16000}) EXPECT_EQ(found.count(unseen), 0u) << unseen;
  EXPECT_EQ(found.at(8000).back(), "forward");
  EXPECT_EQ(found.at(8004).back(), "backward");
}

TEST_F(MemorySnapshotTest, ARunThatEndsEarlierHasWhatThereIs) {
  MemorySnapshot callback({.skip_batches = 0,
                           .interval = Time::Epochs(5),
                           .folder = dir_.Path("{run_name}-of"),
                           .filename = "e{epoch}b{batch}"});
  StepOf(callback, 1000);
  ASSERT_TRUE(Fire(callback, Event::kFitEnd).ok());
  EXPECT_EQ(Allocations("r-of/e0b1.pickle").count(4000), 1u);
}

TEST_F(MemorySnapshotTest, WithoutAFolderItWarnsAndTheRunGoesOn) {
  state_.identity.run_folder = "";
  MemorySnapshot callback({.skip_batches = 0, .interval = Time::Batches(1)});
  ::testing::internal::CaptureStderr();
  StepOf(callback, 10);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("memory_snapshot: FAILED_PRECONDITION"));
}

TEST_F(MemorySnapshotTest, BesideAnotherRecorderItWarnsAndWritesNothing) {
  AllocationRecorder other(10);
  ASSERT_TRUE(other.Start().ok());
  MemorySnapshot callback({.skip_batches = 0, .interval = Time::Batches(1)});
  ::testing::internal::CaptureStderr();
  StepOf(callback, 10);
  StepOf(callback, 10);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("while a profiler records"));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_TRUE(other.running());
}

}  // namespace
}  // namespace composer
