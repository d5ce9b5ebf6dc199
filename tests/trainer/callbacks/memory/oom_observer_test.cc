// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/memory/oom_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/support/run_python.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/callbacks/callback_fixture.h"
#include "tests/trainer/callbacks/small_models.h"
#include "trainer/callbacks/memory/free_outputs.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr char kError[] =
    "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: not enough memory: you tried to allocate 4096 bytes.";

constexpr int64_t kMoreThanAddresses = 900'000'000'000'000;  // a process has 2^47 bytes of them

class OOMObserverTest : public CallbackTest {
 protected:
  OOMObserverTest() {
    state_.identity.run_folder = dir_.path();
    state_.model = std::make_shared<LinearModel>();
    state_.optimizer = std::make_unique<PlainSgd>(*state_.model, 0.5);
    state_.batch.inputs = torch::zeros({8, 100});
    state_.batch.targets = torch::zeros({8}, torch::kLong);
    state_.batch.num_samples = 8;
    state_.outputs = torch::zeros({8, 2}, torch::kDouble);
    state_.optimizer->groups()[0].params[0].mutable_grad() = torch::ones({2, 2});
    state_.settings.device_train_microbatch_size = 8;
  }
  Json Report(const std::string& name = "traces/rank0_oom.json") {
    return Json::parse(ReadFile(dir_.Path(name)).value());
  }
  TempDir dir_;
};

TEST_F(OOMObserverTest, TheReportSaysWhatWasHeldAndWhatToDo) {
  const auto path = WriteOomReport(state_, kError);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, dir_.Path("traces/rank0_oom.json"));
  const Json report = Report();
  EXPECT_EQ(report["message"], kError);
  EXPECT_THAT(report["advice"].get<std::string>(), HasSubstr("device_train_microbatch_size"));
  EXPECT_EQ(report["where"]["device"], "cpu");
  EXPECT_EQ(report["where"]["device_train_microbatch_size"], 8);
  EXPECT_EQ(report["where"]["precision"], "fp32");
  EXPECT_EQ(report["memory"]["requested_bytes"], 4096);
  EXPECT_GT(report["memory"]["total_bytes"], 0);
  EXPECT_EQ(report["totals"]["parameter"], Json({{"tensors", 2}, {"bytes", 24}}));
  EXPECT_EQ(report["totals"]["gradient"], Json({{"tensors", 1}, {"bytes", 16}}));
  EXPECT_EQ(report["totals"]["buffer"]["bytes"], 4);
  EXPECT_EQ(report["totals"]["optimizer"]["bytes"], 24);
  EXPECT_EQ(report["totals"]["batch"]["bytes"], 3200 + 64);
  EXPECT_EQ(report["totals"]["outputs"]["bytes"], 128);
}

TEST_F(OOMObserverTest, TheLargestComeFirstWithShapeAndKind) {
  ASSERT_TRUE(WriteOomReport(state_, kError, {.largest = 3}).ok());
  const Json largest = Report()["largest"];
  ASSERT_EQ(largest.size(), 3u);
  EXPECT_EQ(largest[0], Json({{"kind", "batch"},
                              {"name", "inputs"},
                              {"bytes", 3200},
                              {"shape", {8, 100}},
                              {"dtype", "Float"},
                              {"device", "cpu"}}));
  EXPECT_EQ(largest[1]["kind"], "outputs");
  EXPECT_EQ(largest[1]["dtype"], "Double");
  EXPECT_EQ(largest[2]["name"], "targets");
}

TEST_F(OOMObserverTest, AStateWithoutPartsIsReportedTooAndPlaceholdersAreFilled) {
  state_ = State();
  state_.identity.run_name = "r", state_.identity.rank = 5;
  ASSERT_TRUE(WriteOomReport(state_, kError, {.folder = dir_.Path("{run_name}"), .filename = "at{rank}"}).ok());
  EXPECT_TRUE(Report("r/at5.json")["totals"].empty());
  EXPECT_EQ(WriteOomReport(state_, kError).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(OOMObserverTest, TheTrainersReportReachesEveryObserver) {
  state_.callbacks.push_back(std::make_unique<FreeOutputs>());
  ReportOutOfMemory(state_, logger_, kError);
  EXPECT_FALSE(PathExists(dir_.Path("traces")));
  state_.callbacks.push_back(std::make_unique<OOMObserver>(OOMObserver::Options()));
  ::testing::internal::CaptureStderr();
  ReportOutOfMemory(state_, logger_, kError);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("where it was is in " + dir_.Path("traces/rank0_oom.json")));
  EXPECT_THAT(ListDir(dir_.Path("traces")).value(), ElementsAre("rank0_oom.json"));
  EXPECT_FALSE(state_.callbacks.back()->events().Has(Event::kBatchStart));
}

TEST_F(OOMObserverTest, TheHistoryHasTheRequestThatFailed) {
  state_.callbacks.push_back(std::make_unique<OOMObserver>(OOMObserver::Options{.record_history = true}));
  Callback& observer = *state_.callbacks.back();
  ASSERT_TRUE(Fire(observer, Event::kFitStart).ok());
  ASSERT_TRUE(Fire(observer, Event::kBeforeForward).ok());
  const at::Tensor held = torch::empty({1234}, torch::kByte);
  std::string message;
  try {
    torch::empty({kMoreThanAddresses}, torch::kByte);
  } catch (const c10::Error& error) {
    message = error.what_without_backtrace();
  }
  ASSERT_FALSE(message.empty());
  ReportOutOfMemory(state_, logger_, message);
  EXPECT_EQ(Report()["memory"]["requested_bytes"], kMoreThanAddresses);
  constexpr char kScript[] = R"(
import pickle, sys
for event in pickle.load(open(sys.argv[1], "rb"))["device_traces"][0]:
    if event["size"] >= 1234: print(event["action"], event["size"], event["frames"][-1]["name"])
)";
  const std::string events = RunPythonScript(kScript, {dir_.Path("traces/rank0_oom.pickle")});
  EXPECT_THAT(events, HasSubstr("alloc 1234 forward\n"));
  EXPECT_THAT(events, HasSubstr("oom 900000000000000 forward\n"));
}

TEST_F(OOMObserverTest, WhatCannotBeWrittenIsWarnedOf) {
  state_.identity.run_folder = "";
  OOMObserver observer({});
  ::testing::internal::CaptureStderr();
  observer.OnOutOfMemory(state_, logger_, kError);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("oom_observer: no report: FAILED_PRECONDITION"));
}

}  // namespace
}  // namespace composer
