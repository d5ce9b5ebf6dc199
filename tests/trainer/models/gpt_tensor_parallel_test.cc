// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/gpt_tensor_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <mutex>

#include "tests/support/spawn_ranks.h"
#include "tests/support/threads_communicator.h"
#include "trainer/parallel/activation_options.h"
#include "trainer/parallel/tensor_parallel.h"

namespace composer {
namespace {

GptOptions Small(bool tied_head) {
  GptOptions options;
  options.layers = 2;
  options.heads = 4;
  options.width = 16;
  options.context = 8;
  options.vocab = 11;
  options.tied_head = tied_head;
  return options;
}

std::vector<Batch> Batches(int steps) {
  std::vector<Batch> batches;
  for (int step = 0; step < steps; ++step) {
    Batch batch;
    batch.inputs = (torch::arange(3 * 8, at::kLong) * (step + 3)).remainder(11).view({3, 8});
    batch.targets = batch.inputs.roll(-1, 1);
    batch.num_samples = 3;
    batches.push_back(batch);
  }
  return batches;
}

using Named = std::map<std::string, at::Tensor>;

struct Curve {
  std::vector<double> losses;
  Named parameters, gradients;  // whole; gradients of the first step
};

// The boxes of all ranks put together; every element once.
class Whole {
 public:
  void Add(const ShardedTensor& sharded) {
    at::Tensor& whole = tensors_[sharded.name];
    at::Tensor& count = counts_[sharded.name];
    if (!whole.defined()) whole = torch::zeros(sharded.shape), count = torch::zeros(sharded.shape);
    for (const Shard& shard : sharded.shards) {
      Box(whole, shard).copy_(shard.data);
      Box(count, shard).add_(1);
    }
  }
  void ExpectFull() const {
    for (const auto& [name, count] : counts_) EXPECT_TRUE(count.eq(1).all().item<bool>()) << name;
  }
  const Named& tensors() const { return tensors_; }

 private:
  static at::Tensor Box(at::Tensor tensor, const Shard& shard) {
    for (size_t d = 0; d < shard.offset.size(); ++d)
      tensor = tensor.narrow(static_cast<int64_t>(d), shard.offset[d], shard.data.size(static_cast<int64_t>(d)));
    return tensor;
  }
  Named tensors_, counts_;
};

void RunSteps(Model& model, int steps, Curve& curve, const std::function<void()>& after_backward) {
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(0.01));
  for (const Batch& batch : Batches(steps)) {
    optimizer.zero_grad();
    const at::Tensor loss = model.loss(model.forward(batch), batch).total;
    loss.backward();
    if (curve.losses.empty()) after_backward();
    optimizer.step();
    curve.losses.push_back(loss.item<double>());
  }
}

Curve TrainWhole(const GptOptions& options, int steps) {
  torch::manual_seed(7);
  const std::shared_ptr<Model> model = MakeGpt(options);
  Curve curve;
  RunSteps(*model, steps, curve, [&] {
    for (const auto& item : model->named_parameters()) curve.gradients[item.key()] = item.value().grad().clone();
  });
  for (const auto& item : model->named_parameters()) curve.parameters[item.key()] = item.value().detach();
  return curve;
}

// The same with `degree` ranks, each a thread.
Curve TrainSplit(const GptOptions& options, int steps, int degree, bool checkpoint) {
  Curve curve;
  Whole parameters, gradients;
  std::mutex mutex;
  ThreadsExchange exchange(degree);
  std::vector<std::shared_ptr<Model>> models;
  std::vector<std::unique_ptr<ThreadsCommunicator>> groups;
  for (int rank = 0; rank < degree; ++rank) {  // here: threads share torch's generator
    groups.push_back(std::make_unique<ThreadsCommunicator>(exchange, rank));
    torch::manual_seed(7);
    models.push_back(MakeTensorParallelGpt(options, *MakeGpt(options), *groups.back()));
    ActivationOptions activations;
    activations.checkpoint.every = checkpoint ? 1 : 0;
    EXPECT_TRUE(WrapActivations(*models.back(), activations, at::kCPU).ok());
  }
  SpawnRanks(degree, [&](int rank) {
    Model& model = *models[static_cast<size_t>(rank)];
    Curve own;
    const auto collect = [&](Whole& whole, Named& replicated, const auto& value_of) {
      const std::lock_guard<std::mutex> lock(mutex);
      Named split;
      auto params = model.named_parameters();
      for (const ShardedTensor& sharded : TensorShards(model)) {
        // The same boxes of the gradient: shards are views of the parameter.
        ShardedTensor of_value = sharded;
        const at::Tensor& param = params[sharded.name];
        for (Shard& shard : of_value.shards) {
          shard.data = value_of(param).as_strided(shard.data.sizes(), shard.data.strides(),
                                                  shard.data.storage_offset() - param.storage_offset());
        }
        whole.Add(of_value);
        split[sharded.name] = param;
      }
      for (const auto& item : params) {
        if (split.contains(item.key())) continue;
        const at::Tensor value = value_of(item.value()).clone();
        if (!replicated.contains(item.key())) replicated[item.key()] = value;
        EXPECT_TRUE(torch::equal(replicated[item.key()], value)) << item.key() << " differs among the ranks";
      }
    };
    RunSteps(model, steps, own,
             [&] { collect(gradients, curve.gradients, [](const at::Tensor& param) { return param.grad(); }); });
    collect(parameters, curve.parameters, [](const at::Tensor& param) { return param.detach(); });
    const std::lock_guard<std::mutex> lock(mutex);
    if (curve.losses.empty()) curve.losses = own.losses;
    EXPECT_EQ(curve.losses, own.losses) << "every rank has the same loss";
  });
  parameters.ExpectFull();
  for (const auto& [name, tensor] : parameters.tensors()) curve.parameters[name] = tensor;
  for (const auto& [name, tensor] : gradients.tensors()) curve.gradients[name] = tensor;
  return curve;
}

double RelativeError(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / (b.norm() + 1e-12)).item<double>();
}

TEST(TensorParallelGpt, TrainsAsTheWholeModel) {
  for (const bool tied_head : {true, false}) {
    const GptOptions options = Small(tied_head);
    const Curve whole = TrainWhole(options, 10);
    for (const int degree : {1, 2, 4}) {
      const Curve split = TrainSplit(options, 10, degree, /*checkpoint=*/false);
      ASSERT_EQ(split.losses.size(), whole.losses.size());
      for (size_t step = 0; step < whole.losses.size(); ++step)
        EXPECT_NEAR(split.losses[step] / whole.losses[step], 1, step == 0 ? 1e-6 : 1e-4)
            << "step " << step << ", degree " << degree;
      ASSERT_EQ(split.gradients.size(), whole.gradients.size());
      for (const auto& [name, gradient] : whole.gradients)
        EXPECT_LT(RelativeError(split.gradients.at(name), gradient), 1e-5) << name << ", degree " << degree;
      ASSERT_EQ(split.parameters.size(), whole.parameters.size());
      for (const auto& [name, parameter] : whole.parameters)
        EXPECT_EQ(split.parameters.at(name).sizes(), parameter.sizes()) << name;
    }
  }
}

TEST(TensorParallelGpt, StartsWithTheWeightsOfTheWholeModel) {
  const GptOptions options = Small(true);
  const Curve whole = TrainWhole(options, 0);
  const Curve split = TrainSplit(options, 0, 4, false);
  for (const auto& [name, parameter] : whole.parameters)
    EXPECT_TRUE(torch::equal(split.parameters.at(name), parameter)) << name;
}

TEST(TensorParallelGpt, CheckpointedActivationsChangeNoBit) {
  const GptOptions options = Small(true);
  const Curve kept = TrainSplit(options, 3, 2, false), again = TrainSplit(options, 3, 2, true);
  EXPECT_EQ(kept.losses, again.losses);
  for (const auto& [name, parameter] : kept.parameters)
    EXPECT_TRUE(torch::equal(again.parameters.at(name), parameter)) << name;
}

TEST(TensorParallelGpt, WhatDoesNotSplitIsNamed) {
  ThreadsExchange exchange(3);
  ThreadsCommunicator group(exchange, 0);
  const std::shared_ptr<Model> whole = MakeGpt(Small(true));
  EXPECT_THROW(MakeTensorParallelGpt(Small(true), *whole, group), c10::ValueError);
  ThreadsExchange two(2);
  ThreadsCommunicator pair(two, 0);
  const std::shared_ptr<Model> model = MakeTensorParallelGpt(Small(true), *whole, pair);
  Batch batch = Batches(1)[0];
  batch.inputs = batch.inputs.slice(1, 0, 7);
  try {
    model->forward(batch);
    FAIL();
  } catch (const c10::ValueError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("sequences of 7 tokens do not split over tensor_parallel_degree 2"));
  }
}

TEST(CopyFromWhole, NamesWhatIsMissingOrOfAnotherShape) {
  ThreadsExchange exchange(2);
  ThreadsCommunicator group(exchange, 0);
  ColumnParallelLinear linear(4, 6, group);
  EXPECT_THROW(CopyFromWhole(linear, {}), c10::ValueError);
  EXPECT_THROW(CopyFromWhole(linear, {{"weight", torch::ones({6, 5})}, {"bias", torch::ones({6})}}), c10::ValueError);
}

}  // namespace
}  // namespace composer
