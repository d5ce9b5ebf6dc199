// SPDX-License-Identifier: Apache-2.0
#include "tests/trainer/loop/small_run.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <map>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "absl/strings/str_cat.h"
#include "checkpoint/format/checkpoint_name.h"
#include "checkpoint/load/reader.h"
#include "storage/local_store.h"
#include "tests/support/spawn_ranks.h"
#include "trainer/core/model_sharding.h"
#include "trainer/models/classifier.h"
#include "trainer/optim/decoupled_adamw.h"

namespace composer {
namespace {

class Rows final : public Dataset {
 public:
  Rows(at::Tensor inputs, at::Tensor targets, int64_t tokens)
      : inputs_(std::move(inputs)), targets_(std::move(targets)), tokens_(tokens) {}
  int64_t size() const override { return inputs_.size(0); }
  Batch Load(absl::Span<const int64_t> indices) const override {
    const at::Tensor rows = torch::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), at::kLong);
    Batch batch;
    batch.inputs = inputs_.index_select(0, rows);
    batch.targets = targets_.index_select(0, rows);
    batch.num_samples = rows.numel();
    batch.num_tokens = rows.numel() * tokens_;
    return batch;
  }

 private:
  at::Tensor inputs_, targets_;
  int64_t tokens_;
};

class TestModel final : public Classifier {
 public:
  explicit TestModel(const ModelShape& shape)
      : shape_(shape), first_(8, shape.hidden), norm_(shape.hidden), second_(shape.hidden, 4) {
    register_module("first", first_);
    if (shape.batch_norm) register_module("norm", norm_);
    register_module("second", second_);
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    at::Tensor x = first_(inputs);
    if (shape_.batch_norm) x = norm_(x);
    return second_(torch::dropout(x.relu(), shape_.dropout, is_training()));
  }

 private:
  ModelShape shape_;
  torch::nn::Linear first_;
  torch::nn::BatchNorm1d norm_;
  torch::nn::Linear second_;
};

}  // namespace

std::shared_ptr<const Dataset> MakeRows(int64_t size, int64_t features, int64_t classes, int64_t tokens_per_sample,
                                        uint32_t start) {
  Draws draws(start);
  at::Tensor inputs = torch::empty({size, features});
  for (int64_t i = 0; i < inputs.numel(); ++i) inputs.data_ptr<float>()[i] = draws.Next();
  return MakeTensorRows(inputs, inputs.slice(1, 0, classes).argmax(1), tokens_per_sample);
}

std::shared_ptr<const Dataset> MakeTensorRows(at::Tensor inputs, at::Tensor targets, int64_t tokens_per_sample) {
  return std::make_shared<Rows>(std::move(inputs), std::move(targets), tokens_per_sample);
}

void FillParameters(Model& model, float scale) {
  const torch::NoGradGuard no_grad;
  Draws draws(1);
  for (const at::Tensor& param : model.parameters()) {
    for (int64_t i = 0; i < param.numel(); ++i) param.data_ptr<float>()[i] = draws.Next() * scale;
  }
}

std::shared_ptr<Model> MakeTestModel(const ModelShape& shape) {
  auto model = std::make_shared<TestModel>(shape);
  FillParameters(*model);
  return model;
}

std::unique_ptr<Optimizer> MakeTestAdamW(Model& model, double lr) {
  ParamGroup group;
  for (const auto& item : model.named_parameters()) {
    group.names.push_back(item.key());
    group.params.push_back(item.value());
  }
  group.lr = group.initial_lr = lr;
  group.weight_decay = 1e-3;
  return std::make_unique<DecoupledAdamWOptimizer>(std::vector<ParamGroup>{group}, AdamWOptions{});
}

TrainerOptions SmallRun(const ModelShape& shape) {
  at::set_num_threads(1);
  TrainerOptions options;
  options.model = MakeTestModel(shape);
  options.train.dataset = MakeRows(40);
  options.train.global_train_batch_size = 8;
  options.make_optimizer = [](Model& model) { return MakeTestAdamW(model); };
  options.max_duration = Time::Epochs(2);
  options.seed = 17;
  return options;
}

void AddCallback(TrainerOptions& options, EventSet events, std::function<void(State&)> fn) {
  options.callbacks.push_back(std::make_unique<OnEvent>(events, [fn = std::move(fn)](Event, State& state) {
    fn(state);
    return absl::OkStatus();
  }));
}

RunResult Train(TrainerOptions options) {
  RunResult result;
  const Communicator* communicator = options.communicator;
  AddCallback(options, {Event::kBatchEnd}, [&result](State& state) { result.losses.push_back(state.step.loss); });
  auto trainer = Trainer::Create(std::move(options));
  result.status = trainer.status();
  if (!trainer.ok()) return result;
  const int64_t before = communicator == nullptr ? 0 : communicator->num_collectives();
  result.status = (*trainer)->Fit();
  result.num_collectives = communicator == nullptr ? 0 : communicator->num_collectives() - before;
  const State& state = (*trainer)->state();
  if (state.sharding != nullptr && !result.status.ok()) return result;  // gathering needs all ranks
  if (state.sharding != nullptr) {
    result.tensors = state.sharding->WholeParameters();
  } else {
    for (const auto& item : state.model->named_parameters())
      result.tensors.emplace_back(item.key(), item.value().detach().clone());
  }
  for (const auto& item : state.model->named_buffers()) result.tensors.emplace_back(item.key(), item.value().clone());
  result.timestamp = state.timestamp;
  result.resumed_from = (*trainer)->resumed_from();
  result.eval_results = (*trainer)->eval_results();
  result.collectives_per_step = (*trainer)->collectives_per_step();
  return result;
}

std::vector<RunResult> TrainOnRanks(int size, const std::function<TrainerOptions(int rank)>& options) {
  ThreadsExchange exchange(size);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<RunResult> results(static_cast<size_t>(size));
  SpawnRanks(size, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    TrainerOptions own = options(rank);
    own.communicator = &communicator;
    own.store = store;
    results[static_cast<size_t>(rank)] = Train(std::move(own));
  });
  return results;
}

double LargestDifference(const RunResult& a, const RunResult& b) {
  if (a.tensors.size() != b.tensors.size() || a.tensors.empty()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const at::Tensor difference = (a.tensors[i].second.to(at::kDouble) - b.tensors[i].second.to(at::kDouble)).abs();
    largest = std::max(largest, difference.max().item<double>());
  }
  return largest;
}

void ExpectSameBits(const RunResult& a, const RunResult& b) {
  ASSERT_TRUE(a.status.ok()) << a.status;
  ASSERT_TRUE(b.status.ok()) << b.status;
  EXPECT_EQ(a.losses, b.losses);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  ASSERT_FALSE(a.tensors.empty());
  for (size_t i = 0; i < a.tensors.size(); ++i)
    EXPECT_TRUE(a.tensors[i].second.equal(b.tensors[i].second)) << a.tensors[i].first;
}

std::vector<std::string> Checkpoints(const std::string& folder) {
  LocalStore store(folder);
  std::vector<CheckpointName> names;
  const std::vector<std::string> keys = store.List("").value();
  for (const std::string& key : keys) {
    const auto name = CheckpointName::Parse(key.substr(0, key.find('/')));
    if (name.has_value() && store.Size(ManifestKey(name->ToString())).ok()) names.push_back(*name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<std::string> result;
  for (const CheckpointName& name : names) result.push_back(name.ToString());
  return result;
}

StateDict NewestCheckpoint(const std::string& folder) {
  LocalStore store(folder);
  const std::string newest = FindNewestValid(store).value().checkpoint;
  return LoadNewStateDict(store, newest).value();
}

void ExpectSavedAlike(const std::string& folder, const std::string& expected_folder) {
  const StateDict saved = NewestCheckpoint(folder), expected = NewestCheckpoint(expected_folder);
  std::map<std::string, at::Tensor> by_name(saved.tensors.begin(), saved.tensors.end());
  ASSERT_EQ(by_name.size(), expected.tensors.size());
  ASSERT_GT(by_name.size(), 0);
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_TRUE(by_name.contains(name)) << name;
    ASSERT_EQ(by_name[name].sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(by_name[name].allclose(tensor, 1e-4, 1e-6)) << name;
  }
}

}  // namespace composer
