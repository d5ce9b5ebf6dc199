// Ranks without their own samples follow the others through a sharded model, whatever the order of its blocks.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/pass_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/spawn_ranks.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

using testing::HasSubstr;
using Kind = PassOrder::Kind;

constexpr ShardingStrategy kShardingStrategies[] = {ShardingStrategy::kShardGradOp, ShardingStrategy::kFullShard};

// Blocks of equal size that run against the model's order: if gathered in another order, each would get another's
// weights.
const std::pair<const char*, Shape> kShapes[] = {{"reversed", {.reversed = true, .equal = true}},
                                                 {"twice", {.reversed = true, .twice = true, .equal = true}},
                                                 {"frozen", {.frozen = true, .reversed = true, .equal = true}}};

void ExpectWhatOneProcessGives(int ranks, const std::function<TrainerOptions()>& options, const FsdpOptions& fsdp) {
  const RunResult one = Train(options());
  ASSERT_TRUE(one.status.ok()) << one.status;
  const auto results = TrainOnRanks(ranks, [&](int) {
    TrainerOptions own = options();
    own.fsdp = fsdp;
    return own;
  });
  for (const RunResult& result : results) {
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_LE(RelativeError(result, one), 1e-6);
    ASSERT_EQ(result.losses.size(), one.losses.size());
    for (size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(result.losses[i], one.losses[i], 1e-4);
  }
}

TEST(PassOrder, ARankWithoutSamplesInTheFirstStep) {
  for (const auto& [name, shape] : kShapes) {
    for (const ShardingStrategy strategy : kShardingStrategies) {
      for (const int replicate : {1, 2}) {
        SCOPED_TRACE(testing::Message() << name << ", strategy " << static_cast<int>(strategy) << ", " << replicate);
        Case c;
        c.shape = shape;
        c.fsdp.strategy = strategy;
        c.fsdp.data_parallel_replicate_degree = replicate;
        const auto options = [&c] {
          TrainerOptions result = OptionsOf(c);
          result.train.dataset = MakeRows(2);  // each batch is a short last one
          return result;
        };
        ExpectWhatOneProcessGives(4, options, c.fsdp);
      }
    }
  }
}

TEST(PassOrder, ARankWithFewerMicrobatches) {
  for (const auto& [name, shape] : kShapes) {
    SCOPED_TRACE(name);
    Case c;
    c.shape = shape;
    c.microbatch = 1;
    c.global_batch = 5;  // 2, 1, 1 and 1 on 4 ranks
    ExpectWhatOneProcessGives(4, [&c] { return OptionsOf(c); }, c.fsdp);
  }
}

TEST(PassOrder, LeavesWithoutSamplesInTheFirstPass) {
  for (const auto& [name, shape] : kShapes) {
    for (const ShardingStrategy strategy : kShardingStrategies) {
      SCOPED_TRACE(testing::Message() << name << ", strategy " << static_cast<int>(strategy));
      Case c;
      c.shape = shape;
      c.fsdp.strategy = strategy;
      const auto options = [&c] {
        TrainerOptions result = OptionsOf(c);
        result.train.dataset = MakeRows(5);  // three of 8 leaves have no sample
        result.virtual_shards = 8;
        return result;
      };
      ExpectWhatOneProcessGives(4, options, c.fsdp);
    }
  }
}

TEST(PassOrder, EvaluationFirst) {
  for (const auto& [name, shape] : kShapes) {
    for (const ShardingStrategy strategy : kShardingStrategies) {
      SCOPED_TRACE(testing::Message() << name << ", strategy " << static_cast<int>(strategy));
      const auto evaluate = [&](int ranks) {
        ThreadsExchange exchange(ranks);
        const auto store = c10::make_intrusive<c10d::HashStore>();
        std::vector<double> values(static_cast<size_t>(ranks));
        SpawnRanks(ranks, [&](int rank) {
          ThreadsCommunicator communicator(exchange, rank);
          Case c;
          c.shape = shape;
          TrainerOptions options = OptionsOf(c);
          EvaluatorOptions eval;
          eval.dataset = MakeRows(2, 8, 4, 0, 5);
          eval.batch_size = 4;
          options.evaluators.push_back(eval);
          options.communicator = &communicator;
          options.store = store;
          if (ranks > 1) options.fsdp.emplace().strategy = strategy;
          const auto trainer = Trainer::Create(std::move(options)).value();
          for (int times = 0; times < 2; ++times) {
            const absl::Status status = trainer->Eval();
            ASSERT_TRUE(status.ok()) << status;
          }
          for (const auto& [metric, value] : trainer->eval_results()) {
            if (metric == "metrics/eval/CrossEntropy") values[static_cast<size_t>(rank)] = value;
          }
        });
        return values;
      };
      const double one = evaluate(1)[0];
      ASSERT_GT(one, 0);
      for (const double value : evaluate(4)) EXPECT_NEAR(value, one, 1e-5);
    }
  }
}

// A rank fails in the very first pass, when nobody has a known order to follow.
TEST(PassOrder, OutOfMemoryInTheFirstPass) {
  for (const auto& [name, shape] : kShapes) {
    for (const Event where : {Event::kBeforeForward, Event::kBeforeBackward, Event::kInit /* inside backward */}) {
      SCOPED_TRACE(testing::Message() << name << ", " << EventName(where));
      Case c;
      c.shape = shape;
      const RunResult one = Train(OptionsOf(c));
      const auto results = TrainOnRanks(3, [&](int rank) {
        TrainerOptions options = OptionsOf(c);
        options.fsdp.emplace();
        options.device_train_microbatch_size = kAutoMicrobatch;
        if (rank != 1) return options;
        AddCallback(options, {where}, [where](State& state) {
          const auto run_out = [&state] {
            if (state.batch.num_samples > 1) TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory (injected)");
          };
          if (where != Event::kInit) return run_out();
          state.model->named_parameters()["block2.down.weight"].register_hook([run_out](const at::Tensor& grad) {
            run_out();
            return grad;
          });
        });
        return options;
      });
      for (const RunResult& result : results) {
        ASSERT_TRUE(result.status.ok()) << result.status;
        EXPECT_LE(RelativeError(result, one), 1e-6);
      }
    }
  }
}

// What a rank sends when its memory or the transport is damaged is an error on each rank, not an index.
TEST(PassOrder, AWordThatIsNotAMoveIsAnError) {
  const auto name = [](size_t unit) { return "block" + std::to_string(unit); };
  for (const PassOrder::Move bad : {PassOrder::Move{Kind::kForward, 2}, PassOrder::Move{static_cast<Kind>(9), 0}}) {
    ThreadsExchange exchange(2);
    SpawnRanks(2, [&](int rank) {
      ThreadsCommunicator communicator(exchange, rank);
      PassOrder order(communicator);
      order.Begin(PassOrder::Pass::kTraining, 2);
      try {
        order.Make(rank == 1 ? bad : PassOrder::Move{Kind::kForward, 0}, name);
        ADD_FAILURE() << "rank " << rank << " took it for a move";
      } catch (const StatusError& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 1 sent the move"));
      }
    });
  }
}

// A model whose order depends on the rank: blocks 0 and 1 are swapped on rank 1.
class Wayward final : public Classifier {
 public:
  explicit Wayward(bool swaps) : swaps_(swaps) {
    for (int i = 0; i < 2; ++i) {
      blocks_.push_back(std::make_shared<TestBlock>(16));
      register_module("block" + std::to_string(i), blocks_.back());
    }
    FillParameters(*this);
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    const bool swaps = swaps_ && passes_++ >= 3;
    return blocks_[swaps ? 0 : 1]->forward(blocks_[swaps ? 1 : 0]->forward(inputs)).slice(1, 0, 4);
  }

 private:
  bool swaps_;
  int passes_ = 0;
  std::vector<std::shared_ptr<TestBlock>> blocks_;
};

TEST(PassOrder, AnotherUnitIsNeverGatheredInSilence) {
  const auto results = TrainOnRanks(2, [](int rank) {
    TrainerOptions options = SmallRun();
    options.model = std::make_shared<Wayward>(rank == 1);
    options.fsdp.emplace();
    return options;
  });
  for (const RunResult& result : results) {
    EXPECT_EQ(result.losses.size(), 3) << "the steps before";
    EXPECT_THAT(std::string(result.status.message()), HasSubstr("are of different units"));
  }
}

// With SHARD_GRAD_OP nothing is gathered in the second pass of a step, so only the digest can reveal a difference.
// Reductions have units, too, so the ranks' moves are simulated here without a model.
TEST(PassOrder, RanksAgreeMoveByMoveInTheFirstPassAndRememberIt) {
  ThreadsExchange exchange(3);
  std::vector<uint32_t> digests(3);
  SpawnRanks(3, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    PassOrder order(communicator);
    const auto name = [](size_t unit) { return "block" + std::to_string(unit); };
    const std::vector<PassOrder::Move> moves = {
        {Kind::kForward, 2}, {Kind::kForward, 1}, {Kind::kBackward, 1}, {Kind::kReduce, 1}};
    for (int pass = 0; pass < 3; ++pass) {
      order.Begin(PassOrder::Pass::kTraining, 3);
      // Rank 0 has no moves in the first pass; rank 1 stops after one in the second.
      const size_t own = (pass == 0 && rank == 0) ? 0 : (pass == 1 && rank == 1) ? 1 : moves.size();
      std::vector<PassOrder::Move> made;
      for (size_t i = 0; i < own; ++i) {
        order.Make(moves[i], name);
        made.push_back(moves[i]);
      }
      while (const auto move = order.Follow(own == moves.size(), name)) made.push_back(*move);
      EXPECT_EQ(made, moves) << "rank " << rank << ", pass " << pass;
    }
    EXPECT_EQ(communicator.num_collectives(), 5) << "the first pass only";
    digests[static_cast<size_t>(rank)] = order.digest();
  });
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_EQ(digests[0], digests[2]);
}

TEST(PassOrder, DifferentMovesEndTheRun) {
  ThreadsExchange exchange(2);
  SpawnRanks(2, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    PassOrder order(communicator);
    order.Begin(PassOrder::Pass::kTraining, 3);
    const absl::Status status = CatchTorch([&] {
      order.Make({Kind::kForward, static_cast<size_t>(rank + 1)}, [](size_t u) { return "block" + std::to_string(u); });
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0: forward of block1; rank 1: forward of block2"));
  });
}

TEST(PassOrder, TheDigestTellsOrdersApart) {
  ThreadsExchange exchange(1);
  ThreadsCommunicator communicator(exchange, 0);
  PassOrder a(communicator), b(communicator);
  a.MakeUnasked({Kind::kForward, 1});
  a.MakeUnasked({Kind::kForward, 2});
  b.MakeUnasked({Kind::kForward, 2});
  EXPECT_NE(a.digest(), b.digest());
  b.MakeUnasked({Kind::kForward, 1});
  EXPECT_NE(a.digest(), b.digest());
  EXPECT_LT(a.digest(), 1U << 24);
}

}  // namespace
}  // namespace composer
