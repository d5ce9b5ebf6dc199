// Tests sync strategies, bucket orders, compression, unused parameters and activation checkpointing in whole runs.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "tests/trainer/loop/small_run.h"
#include "trainer/core/block.h"
#include "trainer/models/classifier.h"

namespace composer {
namespace {

// 43 samples in batches of 8 and microbatches of 2: 3 ranks have 1 or 2 microbatches, and the last batch has 3 samples.
TrainerOptions Uneven(DdpSyncStrategy strategy, GradientCompression compression = GradientCompression::kNone) {
  TrainerOptions options = SmallRun();
  options.train.dataset = MakeRows(43);
  options.device_train_microbatch_size = 2;
  options.ddp.sync_strategy = strategy;
  options.ddp.gradient_compression = compression;
  options.ddp.first_bucket_bytes = options.ddp.bucket_bytes = 128;  // several buckets
  return options;
}

TEST(Ddp, StrategiesTrainTheSame) {
  const RunResult one = Train(Uneven(DdpSyncStrategy::kSingleAutoSync));
  ASSERT_TRUE(one.status.ok()) << one.status;
  for (const DdpSyncStrategy strategy :
       {DdpSyncStrategy::kSingleAutoSync, DdpSyncStrategy::kMultiAutoSync, DdpSyncStrategy::kForcedSync}) {
    for (const int size : {2, 3}) {
      SCOPED_TRACE(testing::Message() << "strategy " << static_cast<int>(strategy) << ", ranks " << size);
      const auto results = TrainOnRanks(size, [&](int) { return Uneven(strategy); });
      for (const RunResult& result : results) {
        ASSERT_TRUE(result.status.ok()) << result.status;
        EXPECT_LT(LargestDifference(one, result), 2e-5);
        EXPECT_EQ(LargestDifference(results[0], result), 0) << "ranks must hold the same bits";
      }
    }
  }
}

TEST(Ddp, CompressedGradientsTrainNearly) {
  const RunResult exact = Train(Uneven(DdpSyncStrategy::kSingleAutoSync));
  for (const GradientCompression compression : {GradientCompression::kBf16, GradientCompression::kBf16SumFp32}) {
    const auto results = TrainOnRanks(3, [&](int) { return Uneven(DdpSyncStrategy::kSingleAutoSync, compression); });
    for (const RunResult& result : results) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_NEAR(result.losses.back() / exact.losses.back(), 1, 0.02);
      EXPECT_GT(LargestDifference(exact, result), 0);
      EXPECT_EQ(LargestDifference(results[0], result), 0) << "ranks must hold the same bits";
    }
  }
}

class Residual final : public Block {
 public:
  explicit Residual(double dropout) : dropout_(dropout), fc_(register_module("fc", torch::nn::Linear(8, 8))) {}

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    return inputs[0] + at::dropout(at::gelu(fc_->forward(inputs[0])), dropout_, is_training());
  }

 private:
  double dropout_;
  torch::nn::Linear fc_;
};

// A model of three blocks and a head, and a layer that nothing uses.
class BlockModel final : public Classifier {
 public:
  explicit BlockModel(double dropout) {
    for (const char* name : {"a", "b", "c"})
      blocks_.push_back(register_module(name, std::make_shared<Residual>(dropout)));
    head_ = register_module("head", torch::nn::Linear(8, 4));
    unused_ = register_module("unused", torch::nn::Linear(8, 8));
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    at::Tensor x = inputs;
    for (const auto& block : blocks_) x = block->forward(x);
    return head_->forward(x);
  }

 private:
  std::vector<std::shared_ptr<Residual>> blocks_;
  torch::nn::Linear head_{nullptr}, unused_{nullptr};
};

TrainerOptions WithBlocks(int checkpoint_every, Precision precision, double dropout = 0) {
  TrainerOptions options = SmallRun();
  options.model = std::make_shared<BlockModel>(dropout);
  FillParameters(*options.model);
  options.device_train_microbatch_size = 3;
  options.precision = precision;
  options.activations.checkpoint.every = checkpoint_every;
  return options;
}

TEST(ActivationCheckpointing, ChangesNoBitOfARun) {
  for (const Precision precision : {Precision::kFp32, Precision::kAmpBf16}) {
    const RunResult plain = Train(WithBlocks(0, precision, 0.2));
    ASSERT_TRUE(plain.status.ok()) << plain.status;
    for (const int every : {1, 2}) {
      const RunResult saving = Train(WithBlocks(every, precision, 0.2));
      ASSERT_TRUE(saving.status.ok()) << saving.status;
      EXPECT_EQ(plain.losses, saving.losses);
      EXPECT_EQ(LargestDifference(plain, saving), 0);
    }
  }
}

// FSDP gathers a block's parameters before the block runs again.
TEST(ActivationCheckpointing, UnderSharding) {
  for (const ShardingStrategy strategy : {ShardingStrategy::kFullShard, ShardingStrategy::kShardGradOp}) {
    std::vector<std::vector<RunResult>> results;
    for (const int every : {0, 1}) {
      results.push_back(TrainOnRanks(2, [&](int) {
        TrainerOptions options = WithBlocks(every, Precision::kFp32);
        options.fsdp.emplace().strategy = strategy;
        return options;
      }));
    }
    for (size_t rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(results[0][rank].status.ok()) << results[0][rank].status;
      ASSERT_TRUE(results[1][rank].status.ok()) << results[1][rank].status;
      EXPECT_EQ(results[0][rank].losses, results[1][rank].losses);
      EXPECT_EQ(LargestDifference(results[0][rank], results[1][rank]), 0);
    }
  }
}

TEST(ActivationCheckpointing, IsRefusedForAModelWithoutBlocks) {
  TrainerOptions options = SmallRun();
  options.activations.checkpoint.every = 1;
  EXPECT_THAT(std::string(Train(std::move(options)).status.message()), testing::HasSubstr("names no blocks"));
}

// AdamW decays weights even where gradients are zero: the unused layer must not move on any number of ranks.
TEST(Ddp, UnusedParametersStayAsTheyAre) {
  const auto unused_of = [](const RunResult& result) {
    for (const auto& [name, tensor] : result.tensors) {
      if (name == "unused.weight") return tensor;
    }
    return at::Tensor();
  };
  const TrainerOptions first = WithBlocks(0, Precision::kFp32);
  const at::Tensor before = first.model->named_parameters()["unused.weight"].detach().clone();
  for (const bool find : {false, true}) {
    const auto results = TrainOnRanks(2, [&](int) {
      TrainerOptions options = WithBlocks(0, Precision::kFp32);
      options.ddp.find_unused_parameters = find;
      return options;
    });
    for (const RunResult& result : results) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      ASSERT_TRUE(unused_of(result).defined());
      EXPECT_TRUE(torch::equal(unused_of(result), before));
    }
  }
}

}  // namespace
}  // namespace composer
