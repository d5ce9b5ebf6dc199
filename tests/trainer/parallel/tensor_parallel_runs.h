// Runs of a small GPT on meshes of ranks, for the tests of tensor parallelism: 10 steps of batches of 5 out of 21
// samples, so that the last batch of an epoch leaves a data-parallel rank without samples. No degree divides the
// vocabulary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/loop/small_run.h"
#include "trainer/models/gpt_tensor_parallel.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/parallel/tensor/tensor_parallel.h"

namespace composer {

inline constexpr ShardingStrategy kNoShard = ShardingStrategy::kNoShard, kGradOp = ShardingStrategy::kShardGradOp,
                                  kFull = ShardingStrategy::kFullShard;

struct TensorRun {
  int ranks = 1;
  int tensor = 1;  // tensor_parallel_degree
  std::optional<ShardingStrategy> strategy;
  int replicate = 1;
  bool tied_head = true;
  int64_t microbatch = 0;
  bool checkpoint_activations = false;
  Precision precision = Precision::kFp32;
  int64_t batches = 10;
  std::string folder;  // of checkpoints; "" means none
  std::function<void(TrainerOptions&, int rank)> change;
};

inline GptOptions SmallGpt(bool tied_head) {
  return {.layers = 2, .heads = 4, .width = 16, .context = 8, .vocab = 13, .tied_head = tied_head};
}

// Provides the same initial weights in every run: torch's generator is shared by the ranks of a test, which are
// threads.
class FirstWeights {
 public:
  explicit FirstWeights(bool tied_head) {
    torch::manual_seed(7);
    const std::shared_ptr<Model> model = MakeGpt(SmallGpt(tied_head));
    for (const auto& item : model->named_parameters()) values_.emplace_back(item.key(), item.value().detach().clone());
  }
  std::shared_ptr<Model> In(std::shared_ptr<Model> model) const {
    CopyFromWhole(*model, values_);
    return model;
  }

 private:
  std::vector<std::pair<std::string, at::Tensor>> values_;
};

// eps is large because Adam divides by the size of a gradient, and that of the keys' bias is pure rounding.
inline std::unique_ptr<Optimizer> MakeGptAdamW(Model& model) {
  ParamGroup group;
  for (const auto& item : model.named_parameters()) {
    group.names.push_back(item.key());
    group.params.push_back(item.value());
  }
  group.lr = group.initial_lr = 0.01;
  group.weight_decay = 1e-3;
  return std::make_unique<DecoupledAdamWOptimizer>(std::vector<ParamGroup>{group}, AdamWOptions{.eps = 1e-3});
}

inline std::shared_ptr<const Dataset> Sentences(int64_t size) {
  const at::Tensor tokens = (torch::arange(size * 9, at::kLong).square() * 5 + 3).remainder(12).view({size, 9});
  return MakeTensorRows(tokens.slice(1, 0, 8).contiguous(), tokens.slice(1, 1, 9).contiguous(), 8);
}

inline TrainerOptions OptionsOf(const TensorRun& run, const FirstWeights& first) {
  TrainerOptions options = SmallRun();
  const GptOptions gpt = SmallGpt(run.tied_head);
  options.model = first.In(MakeGpt(gpt));
  options.tensor_parallel_degree = run.tensor;
  options.split_model = [gpt](const Model& whole, Communicator& group) {
    return MakeTensorParallelGpt(gpt, whole, group);
  };
  if (run.strategy) {
    options.fsdp.emplace().strategy = *run.strategy;
    options.fsdp->data_parallel_replicate_degree = run.replicate;
    if (run.precision == Precision::kAmpBf16) options.fsdp->param_dtype = at::kBFloat16;
  }
  options.precision = run.precision;
  options.activations.checkpoint.every = run.checkpoint_activations ? 1 : 0;
  options.make_optimizer = MakeGptAdamW;
  options.train.dataset = Sentences(21);
  options.train.global_train_batch_size = 5;
  options.device_train_microbatch_size = run.microbatch;
  EvaluatorOptions evaluator;
  evaluator.label = "eval";
  evaluator.dataset = Sentences(7);
  evaluator.batch_size = 2;
  evaluator.eval_interval = Time::Batches(5);
  options.evaluators.push_back(std::move(evaluator));
  options.max_duration = Time::Batches(run.batches);
  options.save.save_folder = run.folder;
  options.save.save_interval = Time::Batches(5);
  return options;
}

inline std::vector<RunResult> RunTensor(const TensorRun& run) {
  const FirstWeights first(run.tied_head);
  return TrainOnRanks(run.ranks, [&](int rank) {
    TrainerOptions options = OptionsOf(run, first);
    if (run.change) run.change(options, rank);
    return options;
  });
}

}  // namespace composer
