// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/gpt_tensor_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "tests/support/spawn_ranks.h"
#include "tests/support/threads_communicator.h"
#include "trainer/options/activation_options.h"
#include "trainer/parallel/activations/wrap_activations.h"
#include "trainer/parallel/tensor/tensor_parallel.h"

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

// The parts of all ranks joined, with every element once.
class Whole {
 public:
  void Add(const SplitParameter& param, const at::Tensor& value) {
    const TensorSplit& split = param.split;
    at::Tensor& whole = tensors_[param.name];
    at::Tensor& count = counts_[param.name];
    if (!whole.defined()) whole = torch::zeros(split.shape), count = torch::zeros(split.shape);
    for (const TensorSplit::Part& part : split.Parts()) {
      whole.narrow(split.dim, part.whole, part.size).copy_(value.narrow(split.dim, part.local, part.size));
      count.narrow(split.dim, part.whole, part.size).add_(1);
    }
  }
  void ExpectFull() const {
    for (const auto& [name, count] : counts_) EXPECT_TRUE(count.eq(1).all().item<bool>()) << name;
  }
  const Named& tensors() const { return tensors_; }

 private:
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
  for (int rank = 0; rank < degree; ++rank) {  // done here because threads share torch's generator
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
      std::set<std::string> split;
      const auto params = model.named_parameters();
      for (const SplitParameter& each : SplitParametersOf(model)) {
        whole.Add(each, value_of(each.tensor));
        split.insert(each.name);
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

// Returns |a - b| / |b| over all tensors together.
double RelativeError(const Named& a, const Named& b) {
  double difference = 0, norm = 0;
  for (const auto& [name, theirs] : b) {
    difference += (a.at(name) - theirs).square().sum().item<double>();
    norm += theirs.square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
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
      EXPECT_LT(RelativeError(split.gradients, whole.gradients), 1e-6) << "degree " << degree;
      for (const auto& [name, gradient] : whole.gradients)
        EXPECT_LT(RelativeError({{name, split.gradients.at(name)}}, {{name, gradient}}), 1e-5) << name;
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
  GptOptions odd = Small(true);
  odd.context = 7;
  const std::shared_ptr<Model> model = MakeTensorParallelGpt(odd, *MakeGpt(odd), pair);
  Batch batch = Batches(1)[0];
  batch.inputs = batch.inputs.slice(1, 0, 7);
  try {
    model->forward(batch);
    FAIL();
  } catch (const c10::ValueError& e) {
    EXPECT_THAT(e.what(),
                testing::HasSubstr("sequences of 7 tokens do not split over tensor_parallel_degree 2, and the "
                                   "context of 7 has no room for more"));
  }
}

// Calls fn with each rank's model in turn on a thread, all with the values of `whole`.
void OnRanks(int degree, const GptOptions& options, const Model& whole, const std::function<void(Model&)>& fn) {
  ThreadsExchange exchange(degree);
  SpawnRanks(degree, [&](int rank) {
    ThreadsCommunicator group(exchange, rank);
    fn(*MakeTensorParallelGpt(options, whole, group));
  });
}

// Generating text, and predicting, need whole logits.
TEST(TensorParallelGpt, OutsideOfTrainingLogitsAreWhole) {
  for (const bool tied_head : {true, false}) {
    const std::shared_ptr<Model> whole = MakeGpt(Small(tied_head));
    whole->eval();
    for (const int degree : {1, 2, 4}) {
      for (const int64_t length : {8, 5, 1}) {
        Batch batch = Batches(1)[0];
        batch.inputs = batch.inputs.slice(1, 0, length);
        batch.targets = at::Tensor();
        const at::Tensor expected = whole->forward(batch);
        OnRanks(degree, Small(tied_head), *whole, [&](Model& model) {
          model.eval();
          for (const at::Tensor& logits : {model.forward(batch), model.eval_forward(batch)}) {
            EXPECT_EQ(logits.sizes(), expected.sizes());
            EXPECT_TRUE(logits.allclose(expected, 1e-4, 1e-6)) << degree << " ranks, length " << length;
          }
        });
      }
    }
  }
}

// Tests the part of the logits that evaluation and training have, and whole ones.
TEST(TensorParallelGpt, LossAndMetricsAreThoseOfTheWholeModel) {
  const GptOptions options = Small(true);
  const std::shared_ptr<Model> whole = MakeGpt(options);
  Batch batch = Batches(1)[0];
  batch.targets = batch.targets.masked_fill(batch.inputs.eq(3), -100);
  const auto values_of = [&batch](Model& model, const at::Tensor& outputs) {
    std::vector<double> values = {model.loss(outputs, batch).total.item<double>()};
    for (const auto& metric : model.metrics(/*is_train=*/false)) {
      metric->Update(outputs, batch);
      values.push_back(metric->Compute());
    }
    return values;
  };
  const std::vector<double> expected = values_of(*whole, whole->forward(batch));
  ASSERT_EQ(expected.size(), 3);
  for (const int degree : {1, 2, 4}) {
    OnRanks(degree, options, *whole, [&](Model& model) {
      EXPECT_LE(model.forward(batch)->size(2), 11 / degree + 1);
      EXPECT_EQ(model.forward(batch)->size(2), model.eval_forward(batch)->size(2));
      const auto expect = [&](const std::vector<double>& values) {
        for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i] / expected[i], 1, 1e-6) << i;
      };
      expect(values_of(model, model.forward(batch)));
      model.eval();
      expect(values_of(model, model.eval_forward(batch)));
      expect(values_of(model, model.forward(batch)));
    });
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
