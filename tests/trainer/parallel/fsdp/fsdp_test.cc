// Compares sharded runs with one process on the same global batches, through the whole trainer; ranks are threads.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/fsdp.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/optim/adam.h"
#include "trainer/optim/model_params.h"
#include "trainer/parallel/norms/gradient_norm.h"

namespace composer {
namespace {

void ExpectAsOneProcess(int ranks, const Case& c, double tolerance) {
  Case plain = c;
  plain.activations = {};
  const RunResult one = Train(OptionsOf(plain));
  ASSERT_TRUE(one.status.ok()) << one.status;
  const std::vector<RunResult> sharded = TrainSharded(ranks, c);
  for (const RunResult& result : sharded) {
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_LE(RelativeError(result, one), tolerance);
    EXPECT_EQ(LargestDifference(result, sharded[0]), 0) << "all ranks have the same weights";
    ASSERT_EQ(result.losses.size(), one.losses.size());
    for (size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(result.losses[i], one.losses[i], 100 * tolerance);
  }
}

constexpr ShardingStrategy kStrategies[] = {ShardingStrategy::kNoShard, ShardingStrategy::kShardGradOp,
                                            ShardingStrategy::kFullShard};

TEST(Fsdp, TenStepsEqualThoseOfOneProcess) {
  for (const ShardingStrategy strategy : kStrategies) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int64_t microbatch : {0, 1, 2}) {
        SCOPED_TRACE(testing::Message() << "strategy " << static_cast<int>(strategy) << ", " << ranks
                                        << " ranks, microbatches of " << microbatch);
        Case c;
        c.microbatch = microbatch;
        c.fsdp.strategy = strategy;
        ExpectAsOneProcess(ranks, c, 1e-6);
      }
    }
  }
}

TEST(Fsdp, RanksWithoutSamplesTakePart) {
  for (const ShardingStrategy strategy : kStrategies) {
    Case c;
    c.global_batch = 38;  // of 40 samples: every second batch has 2
    c.microbatch = 4;
    c.fsdp.strategy = strategy;
    ExpectAsOneProcess(4, c, 1e-6);
  }
}

TEST(Fsdp, OneRankGathersInTheTypeThatManyDo) {
  for (const bool bf16 : {false, true}) {
    Case c;
    c.precision = Precision::kAmpBf16;
    if (bf16) c.fsdp.param_dtype = at::kBFloat16;
    at::ScalarType gathered = at::kLong;
    const std::vector<RunResult> one = TrainOnRanks(1, [&](int) {
      TrainerOptions options = OptionsOf(c);
      options.fsdp = c.fsdp;
      AddCallback(options, {Event::kAfterForward},
                  [&](State& state) { gathered = state.model->parameters()[0].scalar_type(); });
      return options;
    });
    ASSERT_TRUE(one[0].status.ok()) << one[0].status;
    EXPECT_EQ(gathered, bf16 ? at::kBFloat16 : at::kFloat);
    EXPECT_LE(RelativeError(TrainSharded(2, c)[0], one[0]), 5e-3) << "the same but for sums of bfloat16";
    EXPECT_EQ(one[0].tensors[0].second.scalar_type(), at::kFloat) << "what is trained stays float32";
  }
}

TEST(Fsdp, HybridReplicasEqualOneProcess) {
  for (const ShardingStrategy strategy : {ShardingStrategy::kShardGradOp, ShardingStrategy::kFullShard}) {
    for (const int replicate : {2, 4}) {  // 4 x 1 is DDP
      for (const int64_t microbatch : {0, 1}) {
        SCOPED_TRACE(testing::Message() << replicate << " replicas, microbatches of " << microbatch);
        Case c;
        c.microbatch = microbatch;
        c.fsdp.strategy = strategy;
        c.fsdp.data_parallel_replicate_degree = replicate;
        ExpectAsOneProcess(4, c, 1e-6);
      }
    }
  }
  Case c;
  c.fsdp.data_parallel_shard_degree = 2;
  c.fsdp.data_parallel_replicate_degree = 0;
  ExpectAsOneProcess(2, c, 1e-6);
  c.fsdp.data_parallel_replicate_degree = 3;
  EXPECT_EQ(TrainSharded(2, c)[0].status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(Fsdp, OffloadAndOwnWeightsChangeNothing) {
  Case c;
  c.fsdp.cpu_offload = true;
  c.fsdp.sync_module_states = false;
  ExpectAsOneProcess(2, c, 1e-6);
}

TEST(Fsdp, CheckpointedAndOffloadedActivationsChangeNothing) {
  for (const ShardingStrategy strategy : kStrategies) {
    for (const bool checkpoint : {false, true}) {
      for (const bool frozen : {false, true}) {
        SCOPED_TRACE(testing::Message() << "strategy " << static_cast<int>(strategy) << ", checkpoint " << checkpoint);
        Case c;
        c.shape.frozen = frozen;
        c.microbatch = 2;
        c.fsdp.strategy = strategy;
        c.activations.checkpoint.every = checkpoint ? 1 : 0;
        c.activations.cpu_offload = !checkpoint || frozen;
        ExpectAsOneProcess(2, c, 1e-6);
      }
    }
  }
}

TEST(Fsdp, EveryPrefetchGivesTheSame) {
  for (const BackwardPrefetch backward : {BackwardPrefetch::kNone, BackwardPrefetch::kPre, BackwardPrefetch::kPost}) {
    for (const bool forward : {false, true}) {
      for (const bool limited : {false, true}) {
        Case c;
        c.microbatch = 2;
        c.fsdp.backward_prefetch = backward;
        c.fsdp.forward_prefetch = forward;
        c.fsdp.limit_all_gathers = limited;
        ExpectAsOneProcess(3, c, 1e-6);
      }
    }
  }
}

TEST(Fsdp, FrozenUnusedTiedReversedAndRepeatedBlocks) {
  const std::pair<const char*, Shape> shapes[] = {{"frozen", {.frozen = true}},
                                                  {"unused", {.unused = true}},
                                                  {"tied", {.tied = true}},
                                                  {"reversed", {.reversed = true}},
                                                  {"twice", {.twice = true}}};
  for (const auto& [name, shape] : shapes) {
    for (const ShardingStrategy strategy : {ShardingStrategy::kShardGradOp, ShardingStrategy::kFullShard}) {
      for (const int64_t microbatch : {0, 1}) {
        SCOPED_TRACE(testing::Message() << name << ", strategy " << static_cast<int>(strategy));
        Case c;
        c.shape = shape;
        c.microbatch = microbatch;
        c.fsdp.strategy = strategy;
        if (shape.unused) {
          // A parameter without a gradient on any rank counts as having zeros here and decays; one process leaves it
          // alone.
          c.fsdp.forward_prefetch = true;
          const auto used = [](RunResult result) {
            std::erase_if(result.tensors, [](const auto& item) { return item.first.rfind("block2.", 0) == 0; });
            return result;
          };
          const RunResult one = used(Train(OptionsOf(c)));
          for (const RunResult& result : TrainSharded(2, c)) {
            ASSERT_TRUE(result.status.ok()) << result.status;
            EXPECT_LE(RelativeError(used(result), one), 1e-6);
          }
        } else {
          ExpectAsOneProcess(2, c, 1e-6);
        }
      }
    }
  }
}

TEST(Fsdp, ClippingIsThatOfOneProcess) {
  for (const double p : {1.0, 2.0, 3.0, static_cast<double>(INFINITY)}) {
    const auto clipped = [p](const Case& c, std::vector<double>& norms) {
      TrainerOptions options = OptionsOf(c);
      AddCallback(options, {Event::kAfterTrainBatch}, [&norms, p](State& state) {
        norms.push_back(ClipGradientsByNorm(state.model->parameters(), 0.05, state.sharding, p));
        if (state.timestamp.batch % 2 == 1) ClipGradientsByValue(state.model->parameters(), 0.001);
      });
      return options;
    };
    Case c;
    std::vector<double> expected, sharded;
    const RunResult one = Train(clipped(c, expected));
    const auto results = TrainOnRanks(3, [&](int rank) {
      static thread_local std::vector<double> others;
      TrainerOptions options = clipped(c, rank == 2 ? sharded : others);
      options.fsdp.emplace();
      return options;
    });
    ASSERT_TRUE(results[0].status.ok()) << results[0].status;
    ASSERT_EQ(sharded.size(), expected.size());
    for (size_t i = 0; i < sharded.size(); ++i) EXPECT_NEAR(sharded[i], expected[i], 1e-5 * expected[i]);
    EXPECT_LE(RelativeError(results[0], one), 1e-6);
  }
}

// The note in tests/golden/torch_fsdp.json says what was run.
TEST(Fsdp, EqualsTorchsFullyShard) {
  const auto golden = nlohmann::json::parse(ReadFile("tests/golden/torch_fsdp.json").value());
  for (const ShardingStrategy strategy : kStrategies) {
    const auto results = TrainOnRanks(2, [&](int rank) {
      Case c;
      c.fsdp.strategy = strategy;
      TrainerOptions options = OptionsOf(c);
      options.fsdp = c.fsdp;
      options.train.shuffle = false;
      options.make_optimizer = [&golden](Model& model) {
        const auto& adamw = golden["adamw"];
        AdamOptions betas;
        betas.beta1 = adamw["betas"][0], betas.beta2 = adamw["betas"][1], betas.eps = adamw["eps"];
        ParamGroupOptions groups;
        groups.lr = adamw["lr"], groups.weight_decay = adamw["weight_decay"];
        return std::make_unique<AdamWOptimizer>(ParamGroupsOf(model, groups), betas);
      };
      return options;
    });
    ASSERT_TRUE(results[0].status.ok()) << results[0].status;
    ASSERT_EQ(results[0].losses.size(), golden["losses"].size());
    for (size_t i = 0; i < results[0].losses.size(); ++i)
      EXPECT_NEAR(results[0].losses[i], golden["losses"][i].get<double>(), 2e-6);
    double difference = 0, norm = 0;
    for (const auto& [name, tensor] : results[0].tensors) {
      const at::Tensor theirs = torch::tensor(golden["parameters"].at(name).get<std::vector<double>>(), at::kDouble);
      difference += (tensor.flatten().to(at::kDouble) - theirs).square().sum().item<double>();
      norm += theirs.square().sum().item<double>();
    }
    EXPECT_LE(std::sqrt(difference / norm), 1e-6);
  }
}

// A rank that runs out of memory anywhere in a step completes its collectives; all ranks repeat the step with smaller
// microbatches.
TEST(Fsdp, ARankThatRunsOutOfMemoryLeavesNobodyWaiting) {
  const RunResult one = Train(OptionsOf({}));
  for (const ShardingStrategy strategy : {ShardingStrategy::kShardGradOp, ShardingStrategy::kFullShard}) {
    for (const Event where : {Event::kBeforeForward, Event::kAfterForward, Event::kBeforeBackward,
                              Event::kAfterBackward, Event::kInit /* inside backward */}) {
      SCOPED_TRACE(testing::Message() << "strategy " << static_cast<int>(strategy) << ", " << EventName(where));
      const auto results = TrainOnRanks(3, [&](int rank) {
        TrainerOptions options = OptionsOf({});
        options.fsdp.emplace().strategy = strategy;
        options.device_train_microbatch_size = kAutoMicrobatch;
        if (rank != 1) return options;
        AddCallback(options, {where}, [where](State& state) {
          const auto run_out = [&state] {
            if (state.timestamp.batch >= 3 && state.batch.num_samples > 1)
              TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory (injected)");
          };
          if (where != Event::kInit) {
            run_out();
            return;
          }
          state.model->named_parameters()["block2.up.weight"].register_hook([run_out](const at::Tensor& grad) {
            run_out();
            return grad;
          });
        });
        return options;
      });
      for (const RunResult& result : results) {
        ASSERT_TRUE(result.status.ok()) << result.status;
        EXPECT_EQ(result.losses.size(), 10);
        EXPECT_LE(RelativeError(result, one), 1e-6);
      }
    }
  }
}

TEST(Fsdp, SmallBlocksJoinTheRoot) {
  Case c;
  c.fsdp.min_num_params = 200;
  ExpectAsOneProcess(2, c, 1e-6);
  c.fsdp.min_num_params = 1 << 20;  // all of them
  ExpectAsOneProcess(2, c, 1e-6);
}

// bfloat16 has 8 bits: the same sums in another order differ by up to 2^-8 of each gradient, which Adam's first steps
// pass on in full.
TEST(Fsdp, LowPrecision) {
  for (const ShardingStrategy strategy : {ShardingStrategy::kShardGradOp, ShardingStrategy::kFullShard}) {
    Case c;
    c.precision = Precision::kAmpBf16;
    c.fsdp.strategy = strategy;
    ExpectAsOneProcess(2, c, 1e-2);  // FULL: only the products are bfloat16
    c.fsdp.param_dtype = at::kBFloat16;
    ExpectAsOneProcess(2, c, 2e-2);  // DEFAULT
    c.fsdp.reduce_dtype = at::kBFloat16;
    ExpectAsOneProcess(2, c, 2e-2);  // PURE
  }
}

TEST(Fsdp, SkippedStepsOfLossScalingAreTheSameOnAllRanks) {
  Case c;
  c.precision = Precision::kAmpFp16;
  c.global_batch = 4;
  std::vector<std::vector<int64_t>> skipped(2);
  const auto results = TrainOnRanks(2, [&](int rank) {
    TrainerOptions options = OptionsOf(c);
    options.fsdp = c.fsdp;
    // One parameter overflows, which lies in one rank's shard.
    AddCallback(options, {Event::kInit}, [](State& state) {
      state.model->named_parameters()["head.bias"].register_hook(
          [&state](const at::Tensor& grad) { return state.timestamp.batch == 3 ? grad.mul(INFINITY) : grad; });
    });
    AddCallback(options, {Event::kBatchEnd}, [&skipped](State& state) {
      skipped[static_cast<size_t>(state.identity.rank)].push_back(state.settings.scaler->skipped_steps());
    });
    return options;
  });
  for (const RunResult& result : results) ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(skipped[0], skipped[1]);
  EXPECT_GE(skipped[0].back(), 1);
  EXPECT_EQ(LargestDifference(results[0], results[1]), 0);
  for (const auto& [name, tensor] : results[0].tensors) EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
}

TEST(Fsdp, EvaluationOfUnevenBatchesIsThatOfOneProcess) {
  for (const ShardingStrategy strategy : {ShardingStrategy::kShardGradOp, ShardingStrategy::kFullShard}) {
    const auto options = [&](int ranks) {
      Case c;
      TrainerOptions result = OptionsOf(c);
      EvaluatorOptions eval;
      eval.dataset = MakeRows(13, 8, 4, 0, 5);
      eval.batch_size = 12 / ranks;  // the last batch has one sample
      eval.device_eval_microbatch_size = 2;
      eval.eval_interval = Time::Batches(5);
      result.evaluators.push_back(eval);
      result.fsdp.emplace().strategy = strategy;
      return result;
    };
    const RunResult one = Train(options(1));
    for (const int ranks : {2, 3}) {
      const auto sharded = TrainOnRanks(ranks, [&](int rank) { return options(ranks); });
      for (const RunResult& result : sharded) {
        ASSERT_TRUE(result.status.ok()) << result.status;
        ASSERT_EQ(result.eval_results.size(), one.eval_results.size());
        ASSERT_FALSE(one.eval_results.empty());
        for (size_t i = 0; i < one.eval_results.size(); ++i)
          EXPECT_NEAR(result.eval_results[i].second, one.eval_results[i].second, 1e-5);
      }
    }
  }
}

TEST(Fsdp, AStepHasTheCollectivesOfTheGradientsAndParametersOnly) {
  for (const ShardingStrategy strategy : {ShardingStrategy::kShardGradOp, ShardingStrategy::kFullShard}) {
    Case c;
    c.fsdp.strategy = strategy;
    const auto results = TrainSharded(2, c);
    ASSERT_TRUE(results[0].status.ok()) << results[0].status;
    const int64_t gathers = strategy == ShardingStrategy::kFullShard ? 1 + 2 * 3 : 4;
    EXPECT_EQ(results[0].collectives_per_step, gathers + 4);
    // There are two epochs of 5 batches, each with one collective to agree on stopping. In the very first pass there is
    // one before each of the three blocks' forwards, backwards and reductions, and one at its end, to agree on their
    // order.
    EXPECT_EQ(results[0].num_collectives, 10 * results[0].collectives_per_step + 2 + 10);
  }
}

// Before and after each step a rank holds its share of everything and nothing else; the buffers are those of the plan.
TEST(Fsdp, ARankHoldsItsShare) {
  for (const auto& [backward, overlap] : {std::pair{BackwardPrefetch::kNone, true},
                                          {BackwardPrefetch::kPre, true},
                                          {BackwardPrefetch::kPost, true},
                                          {BackwardPrefetch::kPost, false}}) {
    Case c;
    c.fsdp.backward_prefetch = backward;
    c.fsdp.overlap_communication = overlap;
    const RunResult one = Train(OptionsOf(c));
    int64_t whole = 0;
    for (const auto& [name, tensor] : one.tensors) whole += tensor.numel();
    const auto results = TrainOnRanks(4, [&](int rank) {
      TrainerOptions options = OptionsOf(c);
      options.fsdp = c.fsdp;
      AddCallback(options, {Event::kBatchEnd}, [whole](State& state) {
        int64_t params = 0, grads = 0, moments = 0;
        for (const at::Tensor& param : state.model->parameters()) {
          params += param.numel();
          grads += param.grad().numel();
        }
        for (const auto& [name, tensor] : state.optimizer->state()) {
          if (name.find("exp_avg") != std::string::npos) moments += tensor.numel();
        }
        EXPECT_LE(params, whole / 2);  // of 4 ranks; padding matters with few parameters
        EXPECT_EQ(grads, params);
        EXPECT_EQ(moments, 2 * params);
        const auto& fsdp = dynamic_cast<Fsdp&>(*state.sharding);
        EXPECT_EQ(fsdp.pool_bytes(), MemoryOf(fsdp.Plan(0)).buffers);
      });
      return options;
    });
    for (const RunResult& result : results) EXPECT_TRUE(result.status.ok()) << result.status;
  }
}

}  // namespace
}  // namespace composer
