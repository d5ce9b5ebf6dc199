// Models that are built without memory and get their values in pieces are the same on any number of ranks, and stay
// within the planned memory.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/spawn_ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "tests/trainer/parallel/measured_rank.h"
#include "trainer/memory_dry_run.h"
#include "trainer/models/classifier.h"
#include "trainer/models/gpt.h"
#include "trainer/optim/sgd.h"
#include "trainer/parallel/fsdp/fsdp.h"

namespace composer {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A block as a plugin's author might write it: the constructors initialise the parameters.
class UsersBlock final : public Block {
 public:
  explicit UsersBlock(int64_t width) : up_(8, width), down_(width, 8) {
    register_module("up", up_);
    register_module("down", down_);
    ResetParameters();
    scale_ = register_parameter("scale", torch::full({8}, 0.5), /*requires_grad=*/false);
    table_ = register_buffer("table", torch::linspace(0, 1, 8) + torch::rand({8}) * 0.1);
  }
  void ResetParameters() {
    torch::nn::init::xavier_normal_(up_->weight);
    torch::nn::init::zeros_(down_->bias);
  }

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    return inputs[0] + scale_ * down_->forward(at::gelu(up_->forward(inputs[0] + table_)));
  }

 private:
  torch::nn::Linear up_, down_;
  at::Tensor scale_, table_;
};

class UsersModel final : public Classifier {
 public:
  explicit UsersModel(double deviation = 0.3) : in_(8, 8), head_(8, 8) {
    register_module("in", in_);
    for (const int64_t width : {5, 16, 40}) {
      blocks_.push_back(std::make_shared<UsersBlock>(width));
      register_module("block" + std::to_string(blocks_.size()), blocks_.back());
    }
    register_module("norm", norm_);
    register_module("head", head_);
    torch::nn::init::normal_(in_->weight, 0, deviation);
    torch::nn::init::normal_(head_->bias, 0, deviation);
    blocks_[1]->register_parameter("tied", head_->weight);
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    at::Tensor x = in_->forward(inputs);
    for (const auto& block : blocks_) x = block->forward(x);
    return head_->forward(norm_->forward(x)).slice(1, 0, 4);
  }

 private:
  torch::nn::Linear in_, head_;
  torch::nn::BatchNorm1d norm_{8};
  std::vector<std::shared_ptr<UsersBlock>> blocks_;
};

// Returns the initial parameters and buffers of a run.
NamedTensors FirstValues(int ranks, const std::function<std::shared_ptr<Model>(int rank)>& make,
                         const std::optional<FsdpOptions>& fsdp, std::vector<NamedTensors>* of_rank = nullptr) {
  std::vector<NamedTensors> first(static_cast<size_t>(ranks));
  // All options are made before the first rank begins: SmallRun draws from torch's generator, which ranks that are
  // threads share.
  std::vector<TrainerOptions> prepared;
  for (int rank = 0; rank < ranks; ++rank) {
    TrainerOptions options = SmallRun();
    options.model = nullptr;
    options.make_model = [&make, rank] { return make(rank); };
    options.seed = 11;
    options.max_duration = Time::Batches(1);
    options.fsdp = fsdp;
    AddCallback(options, {Event::kFitStart}, [&first, rank](State& state) {
      NamedTensors& own = first[static_cast<size_t>(rank)];
      if (state.sharding != nullptr) {
        own = state.sharding->WholeParameters();
      } else {
        for (const auto& item : state.model->named_parameters())
          own.emplace_back(item.key(), item.value().detach().clone());
      }
      for (const auto& item : state.model->named_buffers()) own.emplace_back(item.key(), item.value().clone());
    });
    prepared.push_back(std::move(options));
  }
  const auto results = TrainOnRanks(ranks, [&](int rank) { return std::move(prepared[static_cast<size_t>(rank)]); });
  for (const RunResult& result : results) EXPECT_TRUE(result.status.ok()) << result.status;
  if (of_rank != nullptr) *of_rank = first;
  return first[0];
}

void ExpectSame(const NamedTensors& ours, const NamedTensors& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  ASSERT_GT(ours.size(), 0);
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].first, theirs[i].first);
    EXPECT_TRUE(ours[i].second.equal(theirs[i].second)) << ours[i].first;
  }
}

TEST(FsdpConstruction, FirstValuesDoNotDependOnRanksOrStrategy) {
  const auto make = [](int) { return std::make_shared<UsersModel>(); };
  const NamedTensors alone = FirstValues(1, make, std::nullopt);
  ExpectSame(FirstValues(2, make, std::nullopt), alone);  // DDP
  for (const int ranks : {1, 2, 3, 4}) {
    for (const ShardingStrategy strategy : {ShardingStrategy::kFullShard, ShardingStrategy::kShardGradOp}) {
      for (const bool sync : {true, false}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, strategy " << static_cast<int>(strategy) << sync);
        FsdpOptions fsdp;
        fsdp.strategy = strategy;
        fsdp.sync_module_states = sync;
        fsdp.data_parallel_replicate_degree = ranks == 4 && sync ? 2 : 1;
        std::vector<NamedTensors> of_rank;
        FirstValues(ranks, make, fsdp, &of_rank);
        for (const NamedTensors& values : of_rank) ExpectSame(values, alone);
      }
    }
  }
}

TEST(FsdpConstruction, SyncModuleStatesIsRankZerosValues) {
  const auto differing = [](int rank) { return std::make_shared<UsersModel>(0.3 + rank); };
  const NamedTensors alone = FirstValues(1, differing, std::nullopt);
  ExpectSame(FirstValues(3, differing, FsdpOptions()), alone);
  FsdpOptions own;
  own.sync_module_states = false;
  const NamedTensors mixed = FirstValues(3, differing, own);
  ASSERT_EQ(mixed.size(), alone.size());
  int differences = 0;
  for (size_t i = 0; i < mixed.size(); ++i) differences += mixed[i].second.equal(alone[i].second) ? 0 : 1;
  EXPECT_GT(differences, 0) << "pieces of ranks that say otherwise";
}

// The constructor writes through pointers.
TEST(FsdpConstruction, WhatCannotBeDeferredIsBuiltWhole) {
  const auto make = [](int) { return std::make_shared<BlockModel>(Shape{}); };
  const NamedTensors alone = FirstValues(1, make, std::nullopt);
  ExpectSame(FirstValues(2, make, FsdpOptions()), alone);
  for (const bool verbose : {true, false}) {
    testing::internal::CaptureStderr();
    FsdpOptions fsdp;
    fsdp.verbose = verbose;
    FirstValues(2, make, fsdp);
    const std::string err = testing::internal::GetCapturedStderr();
    EXPECT_EQ(err.find("whole before it was sharded (The tensor has a non-zero number of elements, but its data is not "
                       "allocated yet") != std::string::npos,
              verbose)
        << err;
  }
}

// There are few tokens, so that activations are small compared with the parameters.
TrainerOptions GptRun(int ranks, const std::string& folder, const GptOptions& gpt, int64_t batches) {
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [gpt] { return MakeGpt(gpt); };
  const at::Tensor tokens = torch::arange(8 * gpt.context).view({8, gpt.context}).remainder(gpt.vocab);
  options.train.dataset = MakeTensorRows(tokens, tokens);
  options.train.global_train_batch_size = 8;
  options.max_duration = Time::Batches(batches);
  options.train_metrics_interval = 0;
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(2);
  if (ranks > 1) options.fsdp.emplace();
  return options;
}

int64_t OptimizerBytes(const State& state) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : state.optimizer->state()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

struct Peaks {
  std::string resumed_from;
  int64_t whole_model = 0;                         // bytes of its parameters
  int64_t planned_start = 0, start = 0;            // until the optimizer is created
  int64_t planned_training = 0, training = 0;      // the first two steps, without a save
  int64_t planned_everything = 0, everything = 0;  // with loading and saving
};

// Measures one rank's tensors, excluding what the test's collectives copy.
Peaks Measure(int ranks, int measured_rank, const std::function<TrainerOptions()>& make_options) {
  ThreadsExchange exchange(ranks);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Peaks peaks;
  peaks.planned_training = PlanStep(make_options(), ranks).peak;
  SpawnRanks(ranks, [&](int rank) {
    AllocationRecorder recorder(1 << 20);
    ThreadsCommunicator communicator(exchange, rank);
    MarkedCommunicator marked(communicator, recorder);
    TrainerOptions options = make_options();
    options.communicator = rank == measured_rank ? static_cast<Communicator*>(&marked) : &communicator;
    options.store = store;
    if (rank != measured_rank) {
      EXPECT_TRUE(Train(std::move(options)).status.ok());
      return;
    }
    ASSERT_TRUE(recorder.Start().ok());
    size_t built = 0, stepped = 0, last = 0;  // events
    int steps = 0;
    AddCallback(options, {Event::kInit}, [&](State& state) { built = recorder.History().events.size(); });
    AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
      last = recorder.History().events.size();
      if (++steps == 2) stepped = last;
      const int64_t optimizer = OptimizerBytes(state);
      PlannedMemory memory;
      if (const auto* fsdp = dynamic_cast<const Fsdp*>(state.sharding)) {
        memory = MemoryOf(fsdp->Plan(optimizer));
        peaks.planned_start = ConstructionBytesOf(fsdp->Plan(0));
      } else {
        for (const at::Tensor& param : state.model->parameters())
          memory.parameters += static_cast<int64_t>(param.nbytes());
        memory.gradients = memory.parameters;
        memory.optimizer = optimizer;
        peaks.planned_start = memory.parameters;
      }
      peaks.planned_start =
          std::max(peaks.planned_start, memory.parameters + (ranks > 1 ? memory.gradients : 0) + memory.optimizer);
      peaks.planned_everything = peaks.planned_training + memory.parameters + memory.optimizer;  // the save's copy
    });
    const RunResult run = Train(std::move(options));
    recorder.Stop();
    EXPECT_TRUE(run.status.ok()) << run.status;
    peaks.resumed_from = run.resumed_from;
    for (const auto& [name, tensor] : run.tensors) peaks.whole_model += static_cast<int64_t>(tensor.nbytes());
    const AllocationHistory history = recorder.History();
    ASSERT_EQ(history.dropped, 0);
    peaks.start = PeakOf(history, 0, built);
    peaks.training = PeakOf(history, 0, stepped);
    peaks.everything = PeakOf(history, 0, last);
  });
  return peaks;
}

void ExpectNear(int64_t measured, int64_t planned) {
  EXPECT_GT(static_cast<double>(measured), 0.98 * static_cast<double>(planned));
  EXPECT_LT(static_cast<double>(measured), 1.02 * static_cast<double>(planned));
}

TEST(FsdpConstruction, PeaksArePlannedFromTheFirstTensorOn) {
  std::printf("| ranks | built: planned | measured | a step: planned | measured | with a save: planned | measured |\n");
  const TempDir folder;
  const GptOptions gpt = {.layers = 4, .heads = 4, .width = 256, .context = 2, .vocab = 64};
  for (const int ranks : {1, 2, 4, 8}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    const Peaks peaks =
        Measure(ranks, ranks - 1, [&] { return GptRun(ranks, folder.Path(std::to_string(ranks)), gpt, 4); });
    std::printf("| %d | %ld | %ld | %ld | %ld | %ld | %ld |\n", ranks, peaks.planned_start, peaks.start,
                peaks.planned_training, peaks.training, peaks.planned_everything, peaks.everything);
    ExpectNear(peaks.start, peaks.planned_start);
    ExpectNear(peaks.training, peaks.planned_training);
    EXPECT_LT(static_cast<double>(peaks.everything), 1.02 * static_cast<double>(peaks.planned_everything));
  }
}

// Saved by 8 ranks and resumed by 6: no rank ever has room for the model.
TEST(FsdpConstruction, NoRankEverHoldsTheWholeModel) {
  const TempDir folder;
  const auto run = [&](int ranks, int64_t batches) {
    TrainerOptions options =
        GptRun(ranks, folder.path(), {.layers = 24, .heads = 4, .width = 96, .context = 2, .vocab = 64}, batches);
    options.make_optimizer = [](Model& model) {
      ParamGroup group;
      for (const auto& item : model.named_parameters()) {
        group.names.push_back(item.key());
        group.params.push_back(item.value());
      }
      group.lr = group.initial_lr = 0.01;
      return std::make_unique<SgdOptimizer>(std::vector<ParamGroup>{group}, SgdOptions{});
    };
    return options;
  };
  const Peaks fresh = Measure(8, 0, [&] { return run(8, 2); });
  EXPECT_EQ(fresh.resumed_from, "");
  const Peaks resumed = Measure(6, 5, [&] { return run(6, 4); });
  EXPECT_NE(resumed.resumed_from, "");
  for (const Peaks& peaks : {fresh, resumed}) {
    EXPECT_GT(peaks.everything, peaks.whole_model / 4);
    EXPECT_LT(peaks.everything, peaks.whole_model * 8 / 10);
  }
}

}  // namespace
}  // namespace composer
