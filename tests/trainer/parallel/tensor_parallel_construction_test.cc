// A tensor-parallel rank's part is made without the whole model, but with the values of the whole one.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/spawn_ranks.h"
#include "tests/trainer/parallel/measured_rank.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/core/model_sharding.h"
#include "trainer/optim/sgd.h"

namespace composer {
namespace {

constexpr ShardingStrategy kFull = ShardingStrategy::kFullShard, kGradOp = ShardingStrategy::kShardGradOp;

using Make = std::function<std::shared_ptr<Model>()>;

// Returns the run's options with a model that the trainer makes.
TensorRun Made(TensorRun run, const Make& make, NamedParameters* first = nullptr, bool sync = true) {
  run.batches = 1;
  run.change = [make, first, sync](TrainerOptions& options, int rank) {
    options.model = nullptr;
    options.make_model = make;
    options.seed = 11;
    if (options.fsdp) options.fsdp->sync_module_states = sync;
    AddCallback(options, {Event::kFitStart}, [first, rank](State& state) {
      NamedParameters values;
      if (state.sharding != nullptr) {
        values = state.sharding->WholeParameters();
      } else {
        for (const auto& [name, param] : ParametersByName(*state.model))
          values.emplace_back(name, param.detach().clone());
      }
      if (rank == 0 && first != nullptr) *first = values;
    });
  };
  return run;
}

void ExpectSameValues(const NamedParameters& ours, const NamedParameters& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  ASSERT_GT(ours.size(), 0);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].first, theirs[i].first);
    EXPECT_TRUE(ours[i].second.equal(theirs[i].second)) << ours[i].first;
  }
}

NamedParameters FirstValuesOf(const TensorRun& run, const Make& make, bool sync = true) {
  NamedParameters values;
  for (const RunResult& result : RunTensor(Made(run, make, &values, sync)))
    EXPECT_TRUE(result.status.ok()) << result.status;
  return values;
}

const TensorRun kMeshes[] = {{.ranks = 2, .tensor = 2},
                             {.ranks = 4, .tensor = 4},
                             {.ranks = 4, .tensor = 2},
                             {.ranks = 4, .tensor = 2, .strategy = kFull},
                             {.ranks = 6, .tensor = 2, .strategy = kGradOp},
                             {.ranks = 8, .tensor = 2, .strategy = kFull, .replicate = 2}};

TEST(TensorParallelConstruction, FirstValuesAreThoseOfTheWholeModel) {
  for (const bool tied_head : {true, false}) {
    const auto make = [tied_head] { return MakeGpt(SmallGpt(tied_head)); };
    const NamedParameters alone = FirstValuesOf({.tied_head = tied_head}, make);
    for (TensorRun mesh : kMeshes) {
      SCOPED_TRACE(testing::Message() << mesh.ranks << " ranks, sharded " << mesh.strategy.has_value());
      mesh.tied_head = tied_head;
      ExpectSameValues(FirstValuesOf(mesh, make), alone);
      if (mesh.strategy) ExpectSameValues(FirstValuesOf(mesh, make, /*sync=*/false), alone);
    }
  }
}

// The constructor writes through pointers, so the part is cut from the whole.
TEST(TensorParallelConstruction, WhatCannotBeDeferredIsCutFromTheWhole) {
  const auto make = [] {
    std::shared_ptr<Model> model = MakeGpt(SmallGpt(true));
    FillParameters(*model);
    return model;
  };
  const NamedParameters alone = FirstValuesOf({}, make);
  for (const TensorRun& mesh : kMeshes) ExpectSameValues(FirstValuesOf(mesh, make), alone);
}

// The same for the part's own constructor.
TEST(TensorParallelConstruction, APartThatCannotBeDeferredIsCutFromTheWhole) {
  const auto make = [] { return MakeGpt(SmallGpt(true)); };
  const NamedParameters alone = FirstValuesOf({}, make);
  for (const TensorRun& mesh : kMeshes) {
    NamedParameters values;
    TensorRun run = Made(mesh, make, &values);
    run.change = [change = run.change](TrainerOptions& options, int rank) {
      change(options, rank);
      options.split_model = [](const Model& whole, Communicator& group) {
        std::shared_ptr<Model> part = MakeTensorParallelGpt(SmallGpt(true), whole, group);
        part->parameters()[0].data_ptr<float>()[0] += 0;
        return part;
      };
    };
    for (const RunResult& result : RunTensor(run)) EXPECT_TRUE(result.status.ok()) << result.status;
    ExpectSameValues(values, alone);
  }
}

TEST(TensorParallelConstruction, WhatDoesNotSplitIsNamed) {
  const auto results = RunTensor(Made({.ranks = 3, .tensor = 3}, [] { return MakeGpt(SmallGpt(true)); }));
  EXPECT_THAT(std::string(results[0].status.message()),
              testing::HasSubstr("heads 4 do not split over tensor_parallel_degree 3"));
}

struct Built {
  int64_t peak = 0;     // of tensors until the optimizer is made
  int64_t pieces = 0;   // of the parameters that this rank keeps
  int64_t largest = 0;  // a parameter of the whole model
  int64_t whole = 0;    // the whole model
};

// Measures the last rank.
Built MeasureBuild(const TensorRun& mesh, const GptOptions& gpt) {
  ThreadsExchange exchange(mesh.ranks);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const FirstWeights unused(true);
  Built built;
  SpawnRanks(mesh.ranks, [&](int rank) {
    AllocationRecorder recorder(1 << 20);
    ThreadsCommunicator communicator(exchange, rank);
    MarkedCommunicator marked(communicator, recorder, &exchange);
    TrainerOptions options = OptionsOf(mesh, unused);
    options.model = nullptr;
    options.make_model = [gpt] { return MakeGpt(gpt); };
    options.split_model = [gpt](const Model& whole, Communicator& group) {
      return MakeTensorParallelGpt(gpt, whole, group);
    };
    options.make_optimizer = [](Model& model) {
      ParamGroup group;
      for (const auto& [name, param] : ParametersByName(model)) {
        group.names.push_back(name);
        group.params.push_back(param);
      }
      group.lr = group.initial_lr = 0.01;
      return std::make_unique<SgdOptimizer>(std::vector<ParamGroup>{group}, SgdOptions{});
    };
    options.max_duration = Time::Batches(1);
    options.store = store;
    const bool measured = rank + 1 == mesh.ranks;
    options.communicator = measured ? static_cast<Communicator*>(&marked) : &communicator;
    if (measured) {
      ASSERT_TRUE(recorder.Start().ok());
      AddCallback(options, {Event::kInit}, [&](State& state) {
        const AllocationHistory history = recorder.History();
        ASSERT_EQ(history.dropped, 0);
        built.peak = PeakOf(history, 0, history.events.size());
        for (const at::Tensor& param : state.model->parameters()) built.pieces += static_cast<int64_t>(param.nbytes());
      });
    }
    const RunResult run = Train(std::move(options));
    recorder.Stop();
    EXPECT_TRUE(run.status.ok()) << run.status;
    if (!measured) return;
    for (const auto& [name, tensor] : run.tensors) {
      built.whole += static_cast<int64_t>(tensor.nbytes());
      built.largest = std::max(built.largest, static_cast<int64_t>(tensor.nbytes()));
    }
  });
  return built;
}

TEST(TensorParallelConstruction, NoRankHoldsMoreThanItsPartsAndOneWholeParameter) {
  const GptOptions gpt{.layers = 24, .heads = 4, .width = 96, .context = 8, .vocab = 301};
  std::printf("| ranks | tensor | sharded | whole model | pieces of a rank | largest parameter | peak |\n");
  for (const TensorRun& mesh : {TensorRun{.ranks = 2, .tensor = 2}, TensorRun{.ranks = 4, .tensor = 4},
                                TensorRun{.ranks = 8, .tensor = 2, .strategy = kFull}}) {
    const Built built = MeasureBuild(mesh, gpt);
    const bool sharded = mesh.strategy.has_value();
    std::printf("| %d | %d | %d | %ld | %ld | %ld | %ld |\n", mesh.ranks, mesh.tensor, sharded, built.whole,
                built.pieces, built.largest, built.peak);
    const double split = static_cast<double>(built.whole) / (sharded ? mesh.ranks : mesh.tensor);
    EXPECT_NEAR(static_cast<double>(built.pieces) / split, 1, 0.05);
    // FSDP also has the gradients' memory, and cuts its piece from the rank's part.
    const int64_t largest_part = built.largest / mesh.tensor;
    const int64_t most = built.pieces * (sharded ? 2 : 1) + built.largest + (sharded ? largest_part : 0);
    EXPECT_GT(built.peak, built.pieces);
    EXPECT_LT(built.peak, most + (64 << 10));
    EXPECT_LT(most + (64 << 10), built.whole * 6 / 10);
  }
}

}  // namespace
}  // namespace composer
