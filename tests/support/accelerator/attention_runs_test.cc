// Tests training with attention_backend on the mock: which operators a run calls, that its values are those of products
// of matrices, and that checkpointing, sharding, resuming and graphs change nothing about it.
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/impl/VirtualGuardImpl.h>

#include "tests/support/accelerator/attention.h"
#include "tests/support/accelerator/graphs.h"
#include "tests/support/accelerator/mock_runs.h"
#include "tests/support/temp_dir.h"

namespace composer::mock {
namespace {

using enum AttentionBackend;
using testing::HasSubstr;
using testing::Not;

constexpr int kCalls = 2 * 6;  // layers by steps

class MockAttentionRuns : public OnMock {
 protected:
  void SetUp() override {
    OnMock::SetUp();
    TakeAttentionCalls();
  }
  void TearDown() override {
    EXPECT_FALSE(HasCudnnFirst()) << "LibTorch's own order is back";
    OnMock::TearDown();
  }
  static bool HasCudnnFirst() { return at::globalContext().sDPPriorityOrder()[0] == at::SDPBackend::cudnn_attention; }
};

TrainerOptions RunWith(AttentionBackend backend, Precision precision = Precision::kAmpBf16, double dropout = 0) {
  TrainerOptions options = GptRun();
  options.model = MakeGoldenGpt({.layers = 2, .heads = 2, .width = 16, .context = 8, .vocab = 20, .dropout = dropout});
  options.attention_backend = backend;
  options.precision = precision;
  return options;
}

// Of the weights' norm: the bound of precisions on the mock beside a CPU (ranks_test.cc).
void ExpectNear(const RunResult& run, const RunResult& other) {
  ASSERT_TRUE(run.status.ok()) << run.status;
  ASSERT_TRUE(other.status.ok()) << other.status;
  ASSERT_EQ(run.tensors.size(), other.tensors.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < run.tensors.size(); ++i) {
    difference += (run.tensors[i].second - other.tensors[i].second).square().sum().item<double>();
    norm += other.tensors[i].second.square().sum().item<double>();
  }
  EXPECT_LT(std::sqrt(difference), 0.05 * std::sqrt(norm));
  for (size_t i = 0; i < run.losses.size(); ++i) EXPECT_NEAR(run.losses[i], other.losses[i], 0.02) << i;
}

TEST_F(MockAttentionRuns, CudnnHasTheLossesOfProductsInEveryOrder) {
  for (const Precision precision : {Precision::kAmpBf16, Precision::kAmpFp16}) {
    const RunResult products = TrainOnMock(RunWith(kMath, precision));
    EXPECT_EQ(TakeAttentionCalls(), AttentionCalls());
    const RunResult cudnn = TrainOnMock(RunWith(kCudnn, precision));
    EXPECT_EQ(TakeAttentionCalls(), (AttentionCalls{.cudnn = kCalls, .cudnn_backward = kCalls}));
    ExpectNear(cudnn, products);
    EXPECT_GT(LargestDifference(cudnn, products), 0) << "another rounding";
    for (uint64_t seed = 1; seed < 4; ++seed) {
      Machine::Get().Restart(seed);
      ExpectSameBits(TrainOnMock(RunWith(kCudnn, precision)), cudnn);
    }
    TakeAttentionCalls();
  }
}

// The mock has no FlashAttention: what is permitted behind it is used, and not cuDNN, which stands before it.
TEST_F(MockAttentionRuns, OtherBackendsAreThoseOfAuto) {
  const RunResult own = TrainOnMock(RunWith(kAuto));
  for (const AttentionBackend backend : {kFlash, kEfficient}) ExpectSameBits(TrainOnMock(RunWith(backend)), own);
  EXPECT_EQ(TakeAttentionCalls(), AttentionCalls());
}

TEST_F(MockAttentionRuns, RecomputationAndShardingToo) {
  const RunResult plain = TrainOnMock(RunWith(kCudnn));
  TakeAttentionCalls();
  const auto checkpointed = [] {
    TrainerOptions options = RunWith(kCudnn);
    options.activations.checkpoint.every = 1;
    return options;
  };
  ExpectSameBits(TrainOnMock(checkpointed()), plain);
  EXPECT_EQ(TakeAttentionCalls(), (AttentionCalls{.cudnn = 2 * kCalls, .cudnn_backward = kCalls}));
  for (const ShardingStrategy strategy :
       {ShardingStrategy::kNoShard, ShardingStrategy::kShardGradOp, ShardingStrategy::kFullShard}) {
    const auto sharded = [&](int /*rank*/) {
      TrainerOptions options = checkpointed();
      options.fsdp.emplace().strategy = strategy;
      return options;
    };
    const std::vector<RunResult> ranks = TrainOnMockRanks(2, sharded);
    EXPECT_EQ(TakeAttentionCalls(), (AttentionCalls{.cudnn = 4 * kCalls, .cudnn_backward = 2 * kCalls}));
    ExpectNear(ranks[0], plain);
  }
}

TEST_F(MockAttentionRuns, ResumesWithTheBitsOfOneRun) {
  const RunResult whole = TrainOnMock(RunWith(kCudnn, Precision::kAmpBf16, 0.5));
  EXPECT_EQ(TakeAttentionCalls().cudnn, kCalls);
  const TempDir folder;
  for (const int64_t batches : {3, 6}) {
    TrainerOptions options = RunWith(kCudnn, Precision::kAmpBf16, 0.5);
    options.save.save_folder = folder.path();
    options.max_duration = Time::Batches(batches);
    const RunResult run = TrainOnMock(std::move(options));
    ASSERT_TRUE(run.status.ok()) << run.status;
    if (batches < 6) continue;
    EXPECT_NE(run.resumed_from, "");
    for (size_t i = 0; i < whole.tensors.size(); ++i)
      EXPECT_TRUE(run.tensors[i].second.equal(whole.tensors[i].second)) << whole.tensors[i].first;
  }
}

// Steps that could be graphs run as they come, with the learning rate rounded as a graph's is.
class NoGraphs final : public GraphCapture {
 public:
  void Begin() override { TORCH_CHECK(false, "this device captures nothing"); }
  std::unique_ptr<DeviceGraph> End() override { return nullptr; }
  void Abandon() override {}
};

TEST_F(MockAttentionRuns, ReplaysHaveTheBitsOfEagerSteps) {
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  const c10::StreamGuard on_own(guard.getStreamFromGlobalPool(kDevice));
  MockGraphs graphs;
  NoGraphs none;
  std::vector<RunResult> results;
  for (GraphCapture* capture : {static_cast<GraphCapture*>(&graphs), static_cast<GraphCapture*>(&none)}) {
    TrainerOptions options = RunWith(kCudnn);
    options.max_duration = Time::Batches(20);
    options.graphs = capture;
    int of_last_step = 0;
    AddCallback(options, {composer::Event::kBatchEnd}, [&](State&) { of_last_step = TakeAttentionCalls().cudnn; });
    results.push_back(TrainOnMock(std::move(options)));
    EXPECT_EQ(of_last_step, capture == &graphs ? 0 : 2) << "a replay launches no operator by itself";
  }
  ExpectSameBits(results[0], results[1]);
}

TEST_F(MockAttentionRuns, LeavesLibTorchAsItWas) {
  {
    TrainerOptions options = RunWith(kCudnn);
    const auto first = Trainer::Create([&] {
      options.device = kDevice;
      return std::move(options);
    }());
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(HasCudnnFirst());
    TrainerOptions other = RunWith(kAuto);
    other.device = kDevice;
    EXPECT_THAT(Trainer::Create(std::move(other)).status().message(),
                HasSubstr("attention_backend: auto, but another trainer of this process has cudnn"));
  }
  EXPECT_FALSE(HasCudnnFirst());
  TrainerOptions refused = RunWith(kCudnn);
  refused.keep_in_fp32.texts = {"nothing"};
  EXPECT_FALSE(TrainOnMock(std::move(refused)).status.ok());
  EXPECT_FALSE(HasCudnnFirst()) << "after a trainer that could not be made";
}

TEST_F(MockAttentionRuns, SaysWhichKernelComputesIt) {
  const auto log_of = [](TrainerOptions options) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(TrainOnMock(std::move(options)).status.ok());
    return testing::internal::GetCapturedStderr();
  };
  const std::string cudnn = log_of(RunWith(kCudnn));
  EXPECT_THAT(cudnn,
              HasSubstr("attention_backend: cudnn: attention is computed by cuDNN, for [8, 2, 8, 8] in BFloat16\n"));
  EXPECT_THAT(log_of(RunWith(kCudnn, Precision::kAmpBf16, 0.1)),
              HasSubstr("by products of matrices, for [8, 2, 8, 8] in BFloat16, dropout 0.1; cuDNN's takes float16 and "
                        "bfloat16, heads of at most 128 in multiples of 8, and dropout in sixteenths"));
  EXPECT_THAT(log_of(RunWith(kAuto)), HasSubstr("attention_backend: auto: attention is computed by products"));
  TrainerOptions on_cpu = GptRun();
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Train(std::move(on_cpu)).status.ok());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("attention_backend")));
}

TEST_F(MockAttentionRuns, AFitInFloat32IsRefused) {
  TrainerOptions options = RunWith(kCudnn);
  options.device = kDevice;
  const auto trainer = Trainer::Create(std::move(options));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_THAT((*trainer)->Fit({.precision = Precision::kFp32}).message(),
              HasSubstr("attention_backend: cudnn needs precision: amp_bf16"));
}

}  // namespace
}  // namespace composer::mock
