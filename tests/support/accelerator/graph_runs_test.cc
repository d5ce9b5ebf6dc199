// Tests training by graphs (cuda_graphs) on the mock: the bits of the same run without, over hundreds of steps; what is
// read of a step; batches of other shapes; resuming; and that a run that cannot be captured goes on without.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include "tests/support/accelerator/graphs.h"
#include "tests/support/accelerator/mock_runs.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/golden_gpt.h"
#include "trainer/algorithms/ema.h"
#include "trainer/algorithms/optimisation/gradient_clipping.h"
#include "trainer/loop/graph_choice.h"
#include "trainer/optim/schedule/schedules.h"
#include "trainer/optim/sgd.h"

namespace composer::mock {
namespace {

using testing::HasSubstr;

// Counts; never captures with `refuses`, so that the same steps run as they come.
class CountedGraphs final : public GraphCapture {
 public:
  explicit CountedGraphs(bool refuses = false) : refuses_(refuses) {}
  void Begin() override {
    TORCH_CHECK(!refuses_, "this device captures nothing");
    ++captures;
    graphs_.Begin();
  }
  std::unique_ptr<DeviceGraph> End() override { return std::make_unique<Counted>(graphs_.End(), replays); }
  void Abandon() override { graphs_.Abandon(); }

  int captures = 0, replays = 0;

 private:
  class Counted final : public DeviceGraph {
   public:
    Counted(std::unique_ptr<DeviceGraph> graph, int& replays) : graph_(std::move(graph)), replays_(replays) {}
    void Replay() override {
      ++replays_;
      graph_->Replay();
    }

   private:
    std::unique_ptr<DeviceGraph> graph_;
    int& replays_;
  };

  bool refuses_;
  MockGraphs graphs_;
};

class MockGraphRuns : public OnMock {
 protected:
  void SetUp() override {
    OnMock::SetUp();
    at::globalContext().setSDPUseFlash(false);
  }
  void TearDown() override {
    at::globalContext().setSDPUseFlash(true);
    OnMock::TearDown();
  }
  static RunResult TrainWith(GraphCapture* graphs, TrainerOptions options) {
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    const c10::StreamGuard on_own(guard.getStreamFromGlobalPool(kDevice));
    options.graphs = graphs;
    return TrainOnMock(std::move(options));
  }
  // Expects the same bits with graphs, in several orders of streams, and so many captures and replays.
  static void ExpectEagersBits(const std::function<TrainerOptions()>& options, int captures, int replays) {
    CountedGraphs none(/*refuses=*/true);
    const RunResult eager = TrainWith(&none, options());
    ASSERT_TRUE(eager.status.ok()) << eager.status;
    for (const uint64_t seed : {1, 2}) {
      SCOPED_TRACE(seed);
      Machine::Get().Restart(seed);
      CountedGraphs graphs;
      ExpectSameBits(TrainWith(&graphs, options()), eager);
      EXPECT_EQ(graphs.captures, captures);
      EXPECT_EQ(graphs.replays, replays);
    }
  }
};

// For a rank's thread, until its end.
void UseOwnStream(int rank) {
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  guard.exchangeStream(guard.getStreamFromGlobalPool({at::kCUDA, static_cast<c10::DeviceIndex>(rank)}));
}

class NoTracer final : public Tracer {
 public:
  Span Begin(const TraceName& /*name*/) override { return 0; }
  void End(Span /*span*/) override {}
  void Instant(const TraceName& /*name*/) override {}
  void Counter(const TraceName& /*name*/, double /*value*/) override {}
};

// Steps that are traced run as they come.
void Trace(TrainerOptions& options) {
  static NoTracer& tracer = *new NoTracer;
  AddCallback(options, {composer::Event::kBatchStart}, [](State& state) { state.tracer = &tracer; });
}

TrainerOptions LongRun(const ModelShape& shape = {}, int64_t batches = 300) {
  TrainerOptions options = SmallRun(shape);
  options.max_duration = Time::Batches(batches);
  options.schedulers.push_back(MakeScheduler(ScheduleByName("cosine_annealing").value()));
  return options;
}

TEST_F(MockGraphRuns, ReplaysHaveTheBitsOfEagerSteps) {
  ExpectEagersBits([] { return LongRun(); }, 1, 300 - kGraphWarmUpSteps);
}

TEST_F(MockGraphRuns, NormsDropoutAndAccumulationToo) {
  const auto options = [] {
    TrainerOptions options = LongRun({.batch_norm = true, .dropout = 0.3});
    options.device_train_microbatch_size = 4;
    return options;
  };
  ExpectEagersBits(options, 1, 300 - kGraphWarmUpSteps);
}

TEST_F(MockGraphRuns, ClippingAndAveragesToo) {
  const auto options = [] {
    TrainerOptions options = LongRun({.dropout = 0.1}, 100);
    options.algorithms.push_back(std::make_unique<GradientClipping>(ClippingType::kNorm, 0.05));
    options.algorithms.push_back(std::make_unique<Ema>(EmaOptions{.smoothing = 0.5}));
    options.evaluators.push_back({.dataset = MakeRows(16, 8, 4, 0, 7)});
    return options;
  };
  ExpectEagersBits(options, 1, 100 - kGraphWarmUpSteps);
}

std::shared_ptr<const Dataset> MakeTokens(int64_t rows) {
  Draws draws(4);
  at::Tensor tokens = torch::empty({rows, 8}, at::kLong);
  for (int64_t i = 0; i < tokens.numel(); ++i)
    tokens.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>((draws.Next() + 1) * 10);
  return MakeTensorRows(tokens, tokens, 8);
}

TrainerOptions GptGraphRun() {
  TrainerOptions options = LongRun({}, 60);
  options.model = MakeGoldenGpt({.layers = 2, .heads = 2, .width = 16, .context = 8, .vocab = 20});
  options.train.dataset = MakeTokens(24);
  return options;
}

TEST_F(MockGraphRuns, AGptInBothPrecisionsToo) {
  for (const Precision precision : {Precision::kFp32, Precision::kAmpBf16}) {
    const auto options = [precision] {
      TrainerOptions options = GptGraphRun();
      options.precision = precision;
      return options;
    };
    ExpectEagersBits(options, 1, 60 - kGraphWarmUpSteps);
  }
}

TEST_F(MockGraphRuns, MomentumOnTheDeviceToo) {
  const auto options = [] {
    TrainerOptions options = LongRun({}, 60);
    options.make_optimizer = [](Model& model) {
      ParamGroup group;
      for (const auto& item : model.named_parameters()) {
        group.names.push_back(item.key());
        group.params.push_back(item.value());
      }
      group.lr = group.initial_lr = 0.05;
      return std::make_unique<SgdOptimizer>(std::vector<ParamGroup>{group}, SgdOptions{.momentum = 0.9});
    };
    return options;
  };
  ExpectEagersBits(options, 1, 60 - kGraphWarmUpSteps);
}

TEST_F(MockGraphRuns, ARateOfFewBitsGivesTheBitsOfARunWithoutGraphs) {
  const auto options = [] {
    TrainerOptions options = SmallRun({.dropout = 0.2});
    options.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 1.0 / 64); };
    options.max_duration = Time::Batches(50);
    return options;
  };
  const RunResult cpu = Train(options());
  CountedGraphs graphs;
  ExpectSameRun(TrainWith(&graphs, options()), cpu);
  EXPECT_GT(graphs.replays, 40);
}

// 44 samples: five batches of 8 and one of 4 in an epoch.
TEST_F(MockGraphRuns, AShortLastBatchHasAGraphOfItsOwn) {
  const auto options = [] {
    TrainerOptions options = LongRun({}, 60);
    options.train.dataset = MakeRows(44);
    return options;
  };
  ExpectEagersBits(options, 2, 60 - 2 * kGraphWarmUpSteps);
}

TEST_F(MockGraphRuns, TheHostWaitsOnceInAReplay) {
  CountedGraphs graphs;
  std::vector<std::string> waits;
  TrainerOptions options = LongRun({}, 20);
  AddCallback(options, {composer::Event::kBatchEnd}, [&](State& state) {
    std::vector<std::string> since = Machine::Get().TakeWaits();
    if (state.timestamp.batch > kGraphWarmUpSteps + 1) waits.insert(waits.end(), since.begin(), since.end());
  });
  ASSERT_TRUE(TrainWith(&graphs, std::move(options)).status.ok());
  EXPECT_EQ(waits, std::vector<std::string>(20 - kGraphWarmUpSteps - 1, "copy to the host"));
}

TEST_F(MockGraphRuns, WhatLooksAtAStepSeesThisOne) {
  std::vector<double> seen[2];
  for (const bool refuses : {true, false}) {
    CountedGraphs graphs(refuses);
    TrainerOptions options = LongRun({}, 30);
    AddCallback(options, {composer::Event::kBatchEnd}, [&](State& state) {
      seen[refuses].push_back(state.loss.item<double>());
      seen[refuses].push_back(state.outputs->sum().item<double>());
      seen[refuses].push_back(state.model->parameters()[0].grad().sum().item<double>());
      seen[refuses].push_back(state.train_metrics[0]->Compute());
    });
    ASSERT_TRUE(TrainWith(&graphs, std::move(options)).status.ok());
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST_F(MockGraphRuns, ARunThatEndsBetweenReplaysGoesOnWithTheSameBits) {
  const auto options = [](const std::string& folder, int64_t batches) {
    TrainerOptions options = SmallRun({.batch_norm = true, .dropout = 0.2});
    options.max_duration = Time::Batches(batches);
    options.save.save_folder = folder;
    options.save.save_interval = Time::Batches(7);
    return options;
  };
  const TempDir of_eager, of_graphs;
  CountedGraphs none(/*refuses=*/true), graphs;
  const RunResult eager = TrainWith(&none, options(of_eager.path(), 60));
  for (const int64_t batches : {21, 42, 60}) {
    const RunResult part = TrainWith(&graphs, options(of_graphs.path(), batches));
    ASSERT_TRUE(part.status.ok()) << part.status;
    if (batches < 60) continue;
    EXPECT_NE(part.resumed_from, "");
    for (size_t i = 0; i < eager.tensors.size(); ++i)
      EXPECT_TRUE(part.tensors.at(i).second.equal(eager.tensors[i].second)) << eager.tensors[i].first;
  }
  EXPECT_EQ(graphs.captures, 3);
}

// The second last feature of one sample is infinite, so that a gradient is NaN at its batch.
TEST_F(MockGraphRuns, AStepThatIsNotFiniteIsLeftOutOnTheDevice) {
  for (const OnNan on_nan : {OnNan::kSkip, OnNan::kStop, OnNan::kContinue}) {
    SCOPED_TRACE(static_cast<int>(on_nan));
    const auto options = [on_nan] {
      TrainerOptions options = LongRun({.batch_norm = true}, 20);
      at::Tensor inputs = torch::rand({160, 8}, at::make_generator<at::CPUGeneratorImpl>(3));
      inputs[12 * 8][6] = INFINITY;
      options.train.dataset = MakeTensorRows(inputs, inputs.slice(1, 0, 4).argmax(1));
      options.train.shuffle = false;
      options.on_nan = on_nan;
      return options;
    };
    CountedGraphs none(/*refuses=*/true), graphs;
    const RunResult eager = TrainWith(&none, options()), replayed = TrainWith(&graphs, options());
    EXPECT_EQ(replayed.status, eager.status);
    EXPECT_EQ(replayed.status.ok(), on_nan != OnNan::kStop);
    EXPECT_GT(graphs.replays, 5);
    ASSERT_EQ(replayed.losses.size(), eager.losses.size());
    for (size_t i = 0; i < eager.tensors.size(); ++i) {
      const at::Tensor mine = replayed.tensors.at(i).second, other = eager.tensors[i].second;
      EXPECT_TRUE(at::equal(mine.nan_to_num(7), other.nan_to_num(7))) << eager.tensors[i].first;
      if (on_nan == OnNan::kSkip) EXPECT_FALSE(mine.isnan().any().item<bool>()) << eager.tensors[i].first;
    }
  }
}

// Its forward pass reads a number on the host.
class LooksAtTheHost final : public Model {
 public:
  LooksAtTheHost() : inner_(register_module("inner", MakeTestModel({.dropout = 0.2}))) {}
  Outputs forward(const Batch& batch) override {
    if (batch.inputs.sum().item<float>() > 1e6) throw std::runtime_error("never");
    return inner_->forward(batch);
  }
  Loss loss(const Outputs& outputs, const Batch& batch) override { return inner_->loss(outputs, batch); }
  MetricList metrics(bool is_train) const override { return inner_->metrics(is_train); }

 private:
  std::shared_ptr<Model> inner_;
};

TEST_F(MockGraphRuns, AModelThatCannotBeCapturedIsTrainedWithout) {
  const auto options = [] {
    TrainerOptions options = LongRun({}, 20);
    options.model = std::make_shared<LooksAtTheHost>();
    return options;
  };
  ExpectEagersBits(options, 1, 0);
}

TEST_F(MockGraphRuns, ARunThatMayNotBeCapturedIsTrainedWithout) {
  const auto options = [] {
    TrainerOptions options = LongRun({}, 10);
    AddCallback(options, {composer::Event::kAfterLoss}, [](State&) {});
    return options;
  };
  CountedGraphs graphs;
  const RunResult result = TrainWith(&graphs, options());
  EXPECT_EQ(graphs.captures, 0);
  ExpectSameRun(result, Train(options()));
}

struct RanksWay {
  const char* name;
  int ranks;
  std::optional<ShardingStrategy> strategy;
};
const RanksWay kRanksWays[] = {{"DDP", 2, {}},
                               {"DDP, 3 ranks", 3, {}},
                               {"FULL_SHARD", 2, ShardingStrategy::kFullShard},
                               {"SHARD_GRAD_OP", 2, ShardingStrategy::kShardGradOp},
                               {"FULL_SHARD, 4 ranks", 4, ShardingStrategy::kFullShard}};

struct RanksRun {
  std::vector<RunResult> results;
  int captures = 0, replays = 0;  // of rank 0
};

// A GPT, whose blocks are sharded, with clipping over all ranks and two microbatches.
RanksRun TrainRanks(const RanksWay& way, bool with_graphs, const std::function<void(TrainerOptions&)>& change) {
  std::vector<std::unique_ptr<CountedGraphs>> graphs;
  for (int rank = 0; rank < way.ranks; ++rank) graphs.push_back(std::make_unique<CountedGraphs>());
  RanksRun run;
  run.results = TrainOnMockRanks(way.ranks, [&](int rank) {
    UseOwnStream(rank);
    TrainerOptions options = GptGraphRun();
    options.device_train_microbatch_size = 2;
    options.algorithms.push_back(std::make_unique<GradientClipping>(ClippingType::kNorm, 0.05));
    if (way.strategy) options.fsdp.emplace().strategy = *way.strategy;
    if (with_graphs) options.graphs = graphs[static_cast<size_t>(rank)].get();
    change(options);
    return options;
  });
  run.captures = graphs[0]->captures;
  run.replays = graphs[0]->replays;
  return run;
}

TEST_F(MockGraphRuns, RanksReplayTheirCollectivesToo) {
  for (const RanksWay& way : kRanksWays) {
    SCOPED_TRACE(way.name);
    const RanksRun eager = TrainRanks(way, true, Trace);
    ASSERT_TRUE(eager.results[0].status.ok()) << eager.results[0].status;
    EXPECT_EQ(eager.captures, 0);
    for (const uint64_t seed : {1, 2}) {
      Machine::Get().Restart(seed);
      const RanksRun run = TrainRanks(way, true, [](TrainerOptions&) {});
      for (size_t rank = 0; rank < run.results.size(); ++rank) ExpectSameBits(run.results[rank], eager.results[rank]);
      EXPECT_EQ(run.captures, 1);
      EXPECT_EQ(run.replays, 60 - kGraphWarmUpSteps);
      EXPECT_THAT(Machine::Get().TakeFaults(), testing::IsEmpty());
    }
  }
}

// With a rate that float32 has. 22 samples: the last batch of an epoch has 6, of which 4 ranks have 2, 2, 1 and 1.
TEST_F(MockGraphRuns, RanksHaveTheBitsOfARunWithoutGraphs) {
  for (const RanksWay& way : kRanksWays) {
    SCOPED_TRACE(way.name);
    const auto change = [](TrainerOptions& options) {
      options.train.dataset = MakeTokens(22);
      options.schedulers.clear();
      options.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 1.0 / 64); };
    };
    const RanksRun eager = TrainRanks(way, false, change), run = TrainRanks(way, true, change);
    for (size_t rank = 0; rank < run.results.size(); ++rank) ExpectSameBits(run.results[rank], eager.results[rank]);
    EXPECT_EQ(run.captures, 2);
    EXPECT_GT(run.replays, 50);
  }
}

TEST_F(MockGraphRuns, RanksThatEndBetweenReplaysGoOnWithTheSameBits) {
  for (const RanksWay& way : kRanksWays) {
    if (way.ranks != 2) continue;
    SCOPED_TRACE(way.name);
    const auto until = [](const std::string& folder, int64_t batches) {
      return [=](TrainerOptions& options) {
        options.schedulers.clear();
        options.max_duration = Time::Batches(batches);
        options.save.save_folder = folder;
        options.save.save_interval = Time::Batches(7);
      };
    };
    const TempDir of_whole, of_parts;
    const RanksRun whole = TrainRanks(way, true, until(of_whole.path(), 40));
    ASSERT_TRUE(TrainRanks(way, true, until(of_parts.path(), 21)).results[0].status.ok());
    const RanksRun rest = TrainRanks(way, true, until(of_parts.path(), 40));
    ASSERT_TRUE(rest.results[0].status.ok()) << rest.results[0].status;
    EXPECT_NE(rest.results[0].resumed_from, "");
    EXPECT_EQ(rest.replays, 40 - 21 - kGraphWarmUpSteps);
    for (size_t i = 0; i < whole.results[0].tensors.size(); ++i) {
      const auto& [name, tensor] = whole.results[0].tensors[i];
      EXPECT_TRUE(rest.results[0].tensors.at(i).second.equal(tensor)) << name;
    }
  }
}

TEST_F(MockGraphRuns, RanksLeaveAStepOutThatIsNotFinite) {
  for (const RanksWay& way : kRanksWays) {
    if (way.ranks != 2) continue;
    SCOPED_TRACE(way.name);
    for (const OnNan on_nan : {OnNan::kSkip, OnNan::kStop}) {
      const auto change = [on_nan](TrainerOptions& options) {
        options.model = MakeTestModel();
        at::Tensor inputs = torch::rand({160, 8}, at::make_generator<at::CPUGeneratorImpl>(3));
        inputs[12 * 8][6] = INFINITY;
        options.train.dataset = MakeTensorRows(inputs, inputs.slice(1, 0, 4).argmax(1));
        options.train.shuffle = false;
        options.max_duration = Time::Batches(20);
        options.on_nan = on_nan;
      };
      const RanksRun eager = TrainRanks(way, true, [&](TrainerOptions& options) { change(options), Trace(options); });
      const RanksRun run = TrainRanks(way, true, change);
      EXPECT_GT(run.replays, 5);
      for (size_t rank = 0; rank < run.results.size(); ++rank) {
        EXPECT_EQ(run.results[rank].status, eager.results[rank].status);
        EXPECT_EQ(run.results[rank].status.ok(), on_nan == OnNan::kSkip);
        for (size_t i = 0; i < eager.results[rank].tensors.size(); ++i)
          EXPECT_TRUE(run.results[rank].tensors.at(i).second.equal(eager.results[rank].tensors[i].second));
      }
    }
  }
}

class LeavesOneOut final : public Model {
 public:
  LeavesOneOut() : inner_(register_module("inner", MakeTestModel())) { register_parameter("unused", torch::ones({3})); }
  Outputs forward(const Batch& batch) override { return inner_->forward(batch); }
  Loss loss(const Outputs& outputs, const Batch& batch) override { return inner_->loss(outputs, batch); }
  MetricList metrics(bool is_train) const override { return inner_->metrics(is_train); }

 private:
  std::shared_ptr<Model> inner_;
};

// Without graphs such a parameter is left alone; the host would have to decide that.
TEST_F(MockGraphRuns, OnSeveralRanksAParameterWithoutAGradientIsAnError) {
  const auto leave_out = [](TrainerOptions& options) {
    options.model = std::make_shared<LeavesOneOut>();
    options.train.dataset = MakeRows(40);
  };
  EXPECT_TRUE(TrainRanks(kRanksWays[0], false, leave_out).results[0].status.ok());
  const RanksRun run = TrainRanks(kRanksWays[0], true, leave_out);
  EXPECT_EQ(run.results[1].status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(run.results[1].status.message(), HasSubstr("each parameter must have a gradient in each step"));
}

TEST_F(MockGraphRuns, OnSeveralRanksAFailedCaptureEndsTheRun) {
  std::vector<std::unique_ptr<CountedGraphs>> graphs;
  for (int rank = 0; rank < 2; ++rank) graphs.push_back(std::make_unique<CountedGraphs>(/*refuses=*/true));
  const std::vector<RunResult> results = TrainOnMockRanks(2, [&](int rank) {
    UseOwnStream(rank);
    TrainerOptions options = LongRun({}, 20);
    options.graphs = graphs[static_cast<size_t>(rank)].get();
    return options;
  });
  EXPECT_THAT(results[0].status.message(), HasSubstr("set cuda_graphs: false"));
  EXPECT_THAT(results[0].status.message(), HasSubstr("this device captures nothing"));
}

TEST_F(MockGraphRuns, MemoryDoesNotGrow) {
  CountedGraphs graphs;
  std::vector<int64_t> used;
  TrainerOptions options = LongRun({}, 40);
  AddCallback(options, {composer::Event::kBatchEnd}, [&](State&) {
    Machine::Get().WaitForDevice(0, "measure");
    used.push_back(MockDeviceAllocator::Get().getDeviceStats(0).reserved_bytes[0].current);
  });
  ASSERT_TRUE(TrainWith(&graphs, std::move(options)).status.ok());
  EXPECT_EQ(used[6], used.back());
}

// A planted mistake: between two replays a buffer gets other memory, and the graph still writes to the old one.
TEST_F(MockGraphRuns, ABufferThatMovesBetweenReplaysIsFound) {
  CountedGraphs graphs;
  TrainerOptions options = LongRun({.batch_norm = true}, 20);
  AddCallback(options, {composer::Event::kBatchEnd}, [&](State& state) {
    const torch::NoGradGuard no_grad;
    if (state.timestamp.batch != 12) return;
    at::Tensor buffer = state.model->buffers()[0];
    buffer.set_data(buffer.clone());
  });
  ASSERT_TRUE(TrainWith(&graphs, std::move(options)).status.ok());
  EXPECT_THAT(Machine::Get().TakeFaults(),
              testing::Contains(HasSubstr("of a graph uses memory that was freed after the capture")));
}

}  // namespace
}  // namespace composer::mock
