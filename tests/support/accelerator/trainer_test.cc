// Tests the trainer's GPU branches on one mock device: the bits of the CPU's run in every order of streams, checkpoints
// both ways, no memory that grows, and one wait of the host in a step.
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "tests/support/accelerator/mock_runs.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/golden_gpt.h"

namespace composer::mock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MockTrainer : public OnMock {
 protected:
  void SetUp() override {
    OnMock::SetUp();
    at::globalContext().setSDPUseFlash(false);  // the CPU's attention, too, is computed from matrix products
  }
  void TearDown() override {
    at::globalContext().setSDPUseFlash(true);
    OnMock::TearDown();
  }
};

TEST_F(MockTrainer, APerceptronHasTheBitsOfTheCpuInEveryOrder) {
  const RunResult cpu = Train(SmallRun());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Machine::Get().Restart(seed);
    ExpectSameRun(TrainOnMock(SmallRun()), cpu);
    EXPECT_THAT(Machine::Get().TakeFaults(), IsEmpty());
  }
}

TEST_F(MockTrainer, NormsDropoutAndAccumulationToo) {
  const auto options = [] {
    TrainerOptions options = SmallRun({.batch_norm = true, .dropout = 0.3});
    options.device_train_microbatch_size = 4;
    return options;
  };
  const RunResult cpu = Train(options());
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Machine::Get().Restart(seed);
    ExpectSameRun(TrainOnMock(options()), cpu);
  }
}

TEST_F(MockTrainer, AGptHasTheBitsOfTheCpu) {
  const RunResult cpu = Train(GptRun());
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Machine::Get().Restart(seed);
    ExpectSameRun(TrainOnMock(GptRun()), cpu);
  }
}

TEST_F(MockTrainer, PinnedLoadersInThreads) {
  const RunResult cpu = Train(SmallRun());
  for (const int workers : {0, 2}) {
    TrainerOptions options = SmallRun();
    options.train.prefetch.num_workers = workers;
    options.train.prefetch.pin_memory = true;
    ExpectSameRun(TrainOnMock(std::move(options)), cpu);
  }
}

// amp_fp16 begins with an overflow, so the scaler skips steps.
TEST_F(MockTrainer, AmpIsTheSameInEveryOrder) {
  for (const Precision precision : {Precision::kAmpFp16, Precision::kAmpBf16, Precision::kAmpFp8}) {
    const auto options = [precision] {
      TrainerOptions options = GptRun();
      options.precision = precision;
      return options;
    };
    Machine::Get().Restart(0);
    const RunResult first = TrainOnMock(options());
    for (uint64_t seed = 1; seed < 4; ++seed) {
      Machine::Get().Restart(seed);
      ExpectSameBits(TrainOnMock(options()), first);
    }
    const RunResult cpu = Train(options());
    ASSERT_EQ(cpu.losses.size(), first.losses.size());
    for (size_t i = 0; i < cpu.losses.size(); ++i)
      EXPECT_NEAR(cpu.losses[i], first.losses[i], 0.02 * cpu.losses[i]) << "the devices' lists of operators differ";
  }
}

TEST_F(MockTrainer, ResumesFromItsOwnAndFromTheCpusCheckpoints) {
  const RunResult cpu = Train(SmallRun({.dropout = 0.2}));
  for (const bool first_on_mock : {true, false}) {
    for (const bool then_on_mock : {true, false}) {
      if (!first_on_mock && !then_on_mock) continue;
      const TempDir folder;
      const auto part = [&](bool on_mock, int64_t batches) {
        TrainerOptions options = SmallRun({.dropout = 0.2});
        options.save.save_folder = folder.path();
        options.save.save_interval = Time::Batches(3);
        if (batches > 0) options.max_duration = Time::Batches(batches);
        return on_mock ? TrainOnMock(std::move(options)) : Train(std::move(options));
      };
      ASSERT_TRUE(part(first_on_mock, 6).status.ok());
      const RunResult whole = part(then_on_mock, 0);
      EXPECT_NE(whole.resumed_from, "");
      for (size_t i = 0; i < cpu.tensors.size(); ++i)
        EXPECT_TRUE(whole.tensors.at(i).second.equal(cpu.tensors[i].second)) << cpu.tensors[i].first;
    }
  }
}

TEST_F(MockTrainer, GeneratesTheGoldenTokens) {
  const GoldenGeneration golden = ReadGoldenGeneration();
  State state;
  state.identity.device = kDevice;
  state.model = MakeGoldenGpt(golden.options);
  state.model->to(kDevice);
  for (const bool cache : {true, false}) {
    GenerateOptions options;
    options.use_cache = cache;
    LocalCommunicator alone(kDevice);
    EXPECT_EQ(GenerateTokens(golden.prompts, options, state, alone), golden.greedy);
  }
}

// What the host waited for from the end of step 3 to that of step 4.
std::vector<std::string> WaitsOf(TrainerOptions options) {
  std::vector<std::string> waits;
  AddCallback(options, {composer::Event::kBatchEnd}, [&](State& state) {
    std::vector<std::string> since = Machine::Get().TakeWaits();
    if (state.timestamp.batch == 4) waits = std::move(since);
  });
  EXPECT_TRUE(TrainOnMock(std::move(options)).status.ok());
  return waits;
}

TEST_F(MockTrainer, AStepWaitsOnce) {
  const std::map<std::string, std::function<void(TrainerOptions&)>> changes = {
      {"plain", [](TrainerOptions&) {}},
      {"no metrics", [](TrainerOptions& options) { options.train_metrics_interval = 0; }},
      {"microbatches", [](TrainerOptions& options) { options.device_train_microbatch_size = 2; }},
      {"amp_fp16", [](TrainerOptions& options) { options.precision = Precision::kAmpFp16; }},
      {"amp_bf16", [](TrainerOptions& options) { options.precision = Precision::kAmpBf16; }},
      {"pinned", [](TrainerOptions& options) { options.train.prefetch = {.num_workers = 1, .pin_memory = true}; }},
      {"skip", [](TrainerOptions& options) { options.on_nan = OnNan::kSkip; }},
      {"gpt", [](TrainerOptions& options) { options = GptRun(); }},
      {"gpt in amp_fp8",
       [](TrainerOptions& options) {
         options = GptRun();
         options.precision = Precision::kAmpFp8;
       }},
  };
  for (const auto& [name, change] : changes) {
    TrainerOptions options = SmallRun({.batch_norm = name == "skip"});
    change(options);
    EXPECT_THAT(WaitsOf(std::move(options)), ElementsAre("copy to the host")) << name;
  }
}

TEST_F(MockTrainer, DeterministicModeAsksCudnnForItToo) {
  at::globalContext().setBenchmarkCuDNN(true);
  const auto options = [] {
    TrainerOptions options = SmallRun();
    options.deterministic_mode = true;
    return options;
  };
  ExpectSameRun(TrainOnMock(options()), Train(options()));
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_TRUE(at::globalContext().deterministicCuDNN());
  EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(false);
}

TEST_F(MockTrainer, MemoryDoesNotGrow) {
  std::vector<int64_t> used;
  TrainerOptions options = SmallRun();
  options.max_duration = Time::Batches(20);
  AddCallback(options, {composer::Event::kBatchEnd}, [&](State&) {
    Machine::Get().WaitForDevice(0, "measure");
    used.push_back(MockDeviceAllocator::Get().getDeviceStats(0).reserved_bytes[0].current);
  });
  ASSERT_TRUE(TrainOnMock(std::move(options)).status.ok());
  EXPECT_EQ(used[5], used.back());
}

}  // namespace
}  // namespace composer::mock
