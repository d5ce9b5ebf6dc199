// Compares the peak that is planned before a run with the allocator's own count of the run, for 1, 2, 4 and 8 ranks.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cstdio>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "tests/support/spawn_ranks.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/parallel/measured_rank.h"
#include "trainer/algorithms/surgery/lora.h"
#include "trainer/memory_dry_run.h"
#include "trainer/models/classifier.h"
#include "trainer/models/gpt.h"
#include "trainer/models/hf/hf_model.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet_small.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/model_params.h"

namespace composer {
namespace {

using testing::HasSubstr;

using MakeOptions = std::function<TrainerOptions(int ranks)>;

// Returns the peak bytes of one rank's tensors, from the first one to the end of the third step, excluding what the
// test's collectives copy.
int64_t MeasuredPeak(int ranks, const MakeOptions& make_options) {
  ThreadsExchange exchange(ranks);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  int64_t peak = 0;
  SpawnRanks(ranks, [&](int rank) {
    AllocationRecorder recorder(1 << 20);
    ThreadsCommunicator communicator(exchange, rank);
    MarkedCommunicator marked(communicator, recorder);
    TrainerOptions options = make_options(ranks);
    const bool measured = rank == ranks - 1;
    options.communicator = measured ? static_cast<Communicator*>(&marked) : &communicator;
    options.store = store;
    options.max_duration = Time::Batches(3);
    if (!measured) {
      EXPECT_TRUE(Train(std::move(options)).status.ok());
      return;
    }
    ASSERT_TRUE(recorder.Start().ok());
    size_t stepped = 0;
    AddCallback(options, {Event::kBatchEnd}, [&](State&) { stepped = recorder.History().events.size(); });
    const RunResult run = Train(std::move(options));
    recorder.Stop();
    EXPECT_TRUE(run.status.ok()) << run.status;
    const AllocationHistory history = recorder.History();
    EXPECT_EQ(history.dropped, 0);
    peak = PeakOf(history, 0, stepped);
  });
  return peak;
}

// Prints a row of docs/results/fsdp_memory.md: what was planned, and how much more was measured.
// autocast_rank is for a single rank that casts its float32 weights: there at::linear's allocations depend on the
// number of rows, and the plan follows the growth of the sum.
void ExpectPlanned(const char* name, const MakeOptions& make_options, bool autocast_rank = false) {
  std::string row = absl::StrCat("| ", name, " |");
  for (const int ranks : {1, 2, 4, 8}) {
    SCOPED_TRACE(testing::Message() << name << ", " << ranks << " ranks");
    const PlannedStep step = PlanStep(make_options(ranks), ranks);
    ASSERT_EQ(step.not_counted, "");
    EXPECT_TRUE(step.by_allocation || (autocast_rank && ranks == 1));
    const int64_t measured = MeasuredPeak(ranks, make_options);
    const double ratio = static_cast<double>(measured) / static_cast<double>(step.peak);
    row += absl::StrFormat(" %.3f MB (%+.2f %%) |", static_cast<double>(step.peak) / 1e6, 100 * (ratio - 1));
    EXPECT_GT(ratio, 0.98);
    EXPECT_LT(ratio, 1.02);
  }
  std::printf("%s\n", row.c_str());
}

TrainerOptions GptRun(int ranks, const GptOptions& gpt, int64_t global_batch) {
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [gpt] { return MakeGpt(gpt); };
  const at::Tensor tokens = torch::arange(2 * global_batch * gpt.context).view({-1, gpt.context}).remainder(gpt.vocab);
  options.train.dataset = MakeTensorRows(tokens, tokens);
  options.train.global_train_batch_size = global_batch;
  if (ranks > 1) options.fsdp.emplace();
  return options;
}

// Nearly all of the memory is parameters.
TrainerOptions FewTokens(int ranks) {
  return GptRun(ranks, {.layers = 4, .heads = 4, .width = 256, .context = 2, .vocab = 64}, 8);
}
// Nearly all of the memory is activations.
TrainerOptions LongSequences(int ranks) {
  return GptRun(ranks, {.layers = 4, .heads = 4, .width = 64, .context = 128, .vocab = 64}, 32);
}

TEST(MemoryPlan, FewTokens) { ExpectPlanned("GPT, few tokens", FewTokens); }

TEST(MemoryPlan, LongSequences) { ExpectPlanned("GPT, long sequences", LongSequences); }

TEST(MemoryPlan, Microbatches) {
  ExpectPlanned("… in microbatches of 2", [](int ranks) {
    TrainerOptions options = LongSequences(ranks);
    options.device_train_microbatch_size = 2;
    return options;
  });
}

// Attention with dropout uses another kernel, whose memory grows with the square of the tokens.
TEST(MemoryPlan, Dropout) {
  ExpectPlanned("… with dropout 0.1", [](int ranks) {
    return GptRun(ranks, {.layers = 2, .heads = 4, .width = 64, .context = 128, .vocab = 64, .dropout = 0.1}, 32);
  });
}

TEST(MemoryPlan, ActivationCheckpointing) {
  for (const int every : {1, 2}) {
    ExpectPlanned(every == 1 ? "… with activation_checkpointing" : "… of each 2nd block", [every](int ranks) {
      TrainerOptions options = LongSequences(ranks);
      options.activations.checkpoint.every = every;
      return options;
    });
  }
}

TEST(MemoryPlan, Elastic) {
  ExpectPlanned("… determinism: elastic", [](int ranks) {
    TrainerOptions options = LongSequences(ranks);
    options.virtual_shards = 8;
    return options;
  });
  ExpectPlanned("few tokens, determinism: elastic", [](int ranks) {
    TrainerOptions options = FewTokens(ranks);
    options.virtual_shards = 8;
    return options;
  });
}

TEST(MemoryPlan, Ddp) {
  ExpectPlanned("few tokens, NO_SHARD", [](int ranks) {
    TrainerOptions options = FewTokens(ranks);
    options.fsdp.reset();
    return options;
  });
}

TEST(MemoryPlan, ShardGradOp) {
  ExpectPlanned("few tokens, SHARD_GRAD_OP", [](int ranks) {
    TrainerOptions options = FewTokens(ranks);
    if (options.fsdp) options.fsdp->strategy = ShardingStrategy::kShardGradOp;
    return options;
  });
}

// 32 samples on ranks that cannot share them evenly: the plan is for the ranks that have most, and so is the
// measurement.
TEST(MemoryPlan, UnevenShares) {
  const PlannedStep step = PlanStep(LongSequences(3), 3);
  EXPECT_EQ(step.rows, 11);
  const double ratio = static_cast<double>(MeasuredPeak(3, LongSequences)) / static_cast<double>(step.peak);
  EXPECT_GT(ratio, 0.98);
  EXPECT_LT(ratio, 1.02);
}

TEST(MemoryPlan, AmpBf16) {
  for (const bool long_sequences : {true, false}) {
    ExpectPlanned(
        long_sequences ? "… amp_bf16" : "few tokens, amp_bf16",
        [=](int ranks) {
          TrainerOptions options = long_sequences ? LongSequences(ranks) : FewTokens(ranks);
          options.precision = Precision::kAmpBf16;
          if (options.fsdp) options.fsdp->param_dtype = at::kBFloat16;
          return options;
        },
        /*autocast_rank=*/true);
  }
}

TEST(MemoryPlan, ResNetSmall) {
  ExpectPlanned("resnet_small", [](int ranks) {
    TrainerOptions options = SmallRun();
    options.model = nullptr;
    options.make_model = [] { return MakeResNetSmall({.widths = {32, 64, 128}, .blocks = 2}); };
    options.train.dataset = MakeTensorRows(torch::rand({64, 1, 28, 28}), torch::arange(64).remainder(10));
    options.train.global_train_batch_size = 32;
    if (ranks > 1) options.fsdp.emplace();
    return options;
  });
}

// Gradients and optimizer state are those of LoRA's matrices alone; the model's own weights are frozen.
TEST(MemoryPlan, Lora) {
  constexpr char kLlama[] = R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 128, "intermediate_size": 384,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32})";
  const auto make_options = [&](int ranks, bool lora, int64_t batch = 16) {
    TrainerOptions options = SmallRun();
    options.model = nullptr;
    options.make_model = [&] { return LoadHfModel({.config = kLlama}); };
    const at::Tensor tokens = torch::arange(32 * 16).view({32, 16}).remainder(256);
    options.train.dataset = MakeTensorRows(tokens, tokens);
    options.train.global_train_batch_size = batch;
    options.make_optimizer = [](Model& model) {  // as jobs do: of what is trained alone
      return std::make_unique<DecoupledAdamWOptimizer>(ParamGroupsOf(model, {.lr = 1e-3}), AdamWOptions{});
    };
    if (ranks > 1) options.fsdp.emplace();
    if (lora)
      options.algorithms.push_back(
          std::make_unique<Lora>(LoraOptions{.r = 8, .lora_alpha = 16, .target_modules = {"all-linear"}}));
    return options;
  };
  ExpectPlanned("Llama with LoRA", [&](int ranks) { return make_options(ranks, true); });
  // With few samples nearly all of the memory is parameters, gradients and the optimizer's state.
  EXPECT_LT(PlanStep(make_options(1, true, 2), 1).peak, PlanStep(make_options(1, false, 2), 1).peak * 6 / 10);
}

TEST(MemoryPlan, Mlp) {
  ExpectPlanned("mlp", [](int ranks) {
    TrainerOptions options = SmallRun();
    options.model = nullptr;
    options.make_model = [] { return MakeMlp({64, 256, 256, 10}); };
    options.train.dataset = MakeTensorRows(torch::rand({1024, 64}), torch::arange(1024).remainder(10));
    options.train.global_train_batch_size = 512;
    if (ranks > 1) options.fsdp.emplace();
    return options;
  });
}

// Checkpointing has the effect that the plan predicts, in both directions.
TEST(MemoryPlan, SaysWhatCheckpointingWouldSave) {
  const PlannedStep without = PlanStep(LongSequences(4), 4);
  TrainerOptions options = LongSequences(4);
  options.activations.checkpoint.every = 1;
  const PlannedStep with = PlanStep(options, 4);
  EXPECT_FALSE(without.checkpoints);
  EXPECT_TRUE(with.checkpoints);
  EXPECT_EQ(without.peak_otherwise, with.peak);
  EXPECT_EQ(with.peak_otherwise, without.peak);
  EXPECT_LT(with.peak, without.peak / 2);
}

std::string Logged(TrainerOptions options) {
  options.max_duration = Time::Batches(1);
  options.fsdp->verbose = true;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Train(std::move(options)).status.ok());
  return testing::internal::GetCapturedStderr();
}

TEST(MemoryPlan, IsLoggedForOneRank) {
  TrainerOptions options = FewTokens(1);
  options.fsdp.emplace();
  const std::string log = Logged(std::move(options));
  EXPECT_THAT(log, HasSubstr("fsdp: not sharded, 1 rank\n  memory of a rank: "));
  EXPECT_THAT(
      log,
      HasSubstr(" = parameters 12.71 MB + gradients 12.71 MB + optimizer 25.41 MB + batches 0.00 MB + activations "));
  EXPECT_THAT(
      log, HasSubstr("  activations: of 1 microbatch of 8 samples a step, without activation_checkpointing; with it a "
                     "rank would take "));
}

// NO_SHARD with a tree of 8 leaves on one rank: 3 partial sums and the gradients of the current leaf.
TEST(MemoryPlan, NamesThePartialSumsOfElasticRuns) {
  TrainerOptions options = FewTokens(1);
  options.virtual_shards = 8;
  options.fsdp.emplace();
  EXPECT_THAT(Logged(std::move(options)), HasSubstr(" + partial sums 50.82 MB + batches"));
}

// Training is the same as without the dry run, including random numbers.
TEST(MemoryPlan, LeavesNoTrace) {
  std::vector<RunResult> runs;
  for (const bool verbose : {false, true}) {
    TrainerOptions options =
        GptRun(1, {.layers = 2, .heads = 2, .width = 16, .context = 8, .vocab = 64, .dropout = 0.2}, 8);
    options.fsdp.emplace().verbose = verbose;
    options.max_duration = Time::Batches(3);
    torch::manual_seed(5);
    testing::internal::CaptureStderr();
    runs.push_back(Train(std::move(options)));
    testing::internal::GetCapturedStderr();
  }
  EXPECT_EQ(LargestDifference(runs[0], runs[1]), 0);
  torch::manual_seed(5);
  const at::Tensor expected = torch::rand({4});
  const TrainerOptions options = LongSequences(2);
  torch::manual_seed(5);
  EXPECT_EQ(PlanStep(options, 2).not_counted, "");
  EXPECT_TRUE(torch::rand({4}).equal(expected));
}

// Its forward accepts only batches of 8, so that the plan's forward fails.
class Picky final : public Classifier {
 public:
  Picky() : layer_(register_module("layer", torch::nn::Linear(8, 4))) {}

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    TORCH_CHECK_VALUE(inputs.size(0) == 8, "only batches of 8, not of ", inputs.size(0));
    return layer_->forward(inputs);
  }

 private:
  torch::nn::Linear layer_;
};

TEST(MemoryPlan, SaysWhyActivationsAreNotCounted) {
  TrainerOptions given = SmallRun();
  given.fsdp.emplace();
  const std::string log = Logged(std::move(given));
  EXPECT_THAT(log, HasSubstr("; activations come on top\n"));
  EXPECT_THAT(log, HasSubstr("  activations: not counted, because the model was given to the trainer already built\n"));

  TrainerOptions picky = SmallRun();
  picky.model = nullptr;
  picky.make_model = [] { return std::make_shared<Picky>(); };
  picky.fsdp.emplace();
  EXPECT_THAT(Logged(std::move(picky)), HasSubstr("activations: not counted, because only batches of 8, not of 2\n"));
}

// A model so slow that each forward takes a minute.
TEST(MemoryPlan, DoesNotMakeTheOtherRanksWaitForLong) {
  class Slow final : public Classifier {
   public:
    explicit Slow(ManualClock& clock) : clock_(clock), layer_(register_module("layer", torch::nn::Linear(8, 4))) {}

   protected:
    at::Tensor Logits(const at::Tensor& inputs) override {
      clock_.Advance(absl::Minutes(1));
      return layer_->forward(inputs);
    }

   private:
    ManualClock& clock_;
    torch::nn::Linear layer_;
  };
  ManualClock clock;
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [&] { return std::make_shared<Slow>(clock); };
  options.clock = &clock;
  const absl::Time start = clock.Now();
  EXPECT_EQ(PlanStep(options, 1).not_counted, "a dry run would take more than 1m40s");
  EXPECT_EQ(clock.Now() - start, absl::Minutes(2));
}

}  // namespace
}  // namespace composer
