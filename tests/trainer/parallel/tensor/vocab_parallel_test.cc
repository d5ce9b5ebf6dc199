// Embedding, logits and losses over a vocabulary that is split among ranks equal those of the whole, with any number of
// ranks.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/vocab_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdio>
#include <fstream>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

#include "tests/support/spawn_ranks.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/parallel/measured_rank.h"
#include "trainer/models/gpt_tensor_parallel.h"

namespace composer {
namespace {

at::Tensor Drawn(at::IntArrayRef shape, uint32_t start, float scale = 1) {
  Draws draws(start);
  std::vector<float> values(static_cast<size_t>(c10::multiply_integers(shape)));
  for (float& value : values) value = draws.Next() * scale;
  return torch::tensor(values).view(shape);
}

// Calls fn on each rank of a group, each a thread.
void OnRanks(int degree, const std::function<void(Communicator& group)>& fn) {
  ThreadsExchange exchange(degree);
  SpawnRanks(degree, [&](int rank) {
    ThreadsCommunicator group(exchange, rank);
    fn(group);
  });
}

// Returns this rank's columns.
at::Tensor LocalLogits(const at::Tensor& logits, const TensorSplit& split) {
  const TensorSplit::Part part = split.Parts()[0];
  return logits.detach().narrow(-1, part.whole, part.size).clone().requires_grad_();
}

// Compares with torch 2.11's ColwiseParallel and loss_parallel on 2 ranks; 3 and 4 do not divide the vocabulary.
TEST(VocabParallelLosses, AreThoseOfTorchsLossParallel) {
  std::ifstream file("tests/golden/torch_loss_parallel.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const at::Tensor weight = Drawn({10, 6}, 2), hidden = Drawn({2, 4, 6}, 1, 3);
  const auto values = [&](const char* key) { return torch::tensor(golden[key].get<std::vector<float>>()); };
  std::vector<int64_t> targets;
  for (const auto& row : golden["targets"]) {
    for (const int64_t target : row) targets.push_back(target);
  }
  for (const int degree : {1, 2, 3, 4}) {
    SCOPED_TRACE(degree);
    OnRanks(degree, [&](Communicator& group) {
      VocabParallelWeight head(10, 6, group);
      CopyFromWhole(head, {{"weight", weight}});
      const at::Tensor x = hidden.clone().requires_grad_(), y = torch::tensor(targets).view({2, 4});
      const at::Tensor loss = VocabParallelLosses(head.Logits(x), y, head.split(), group).sum() / y.ne(-100).sum();
      EXPECT_NEAR(loss.item<double>(), golden["loss"].get<double>(), 2e-6);
      loss.backward();
      group.AllReduceSum(x.grad());
      EXPECT_LT((x.grad().view(-1) - values("hidden_grad")).abs().max().item<double>(), 1e-6);
      const at::Tensor expected = CutFrom(values("weight_grad").view({10, 6}), head.split());
      EXPECT_LT((head.weight.grad() - expected).abs().max().item<double>(), 1e-6);
    });
  }
}

// Includes logits that overflow when they are not shifted, -inf, and targets that do not count.
TEST(VocabParallelLosses, AreThoseOfTheWholeLogits) {
  constexpr int64_t kVocab = 13;
  const at::Tensor targets = torch::tensor({0, 12, 5, 6, -100, 3, 9, 10}).view({2, 4});
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const float scale : {1.0F, 100.0F, 1e4F}) {
      at::Tensor logits = Drawn({2, 4, kVocab}, 3, scale).to(type);
      logits.select(-1, 1).fill_(-std::numeric_limits<float>::infinity());
      logits.requires_grad_();
      const at::ScalarType sums = type == at::kDouble ? at::kDouble : at::kFloat;
      const at::Tensor expected =
          at::cross_entropy_loss(logits.to(sums).flatten(0, 1), targets.flatten(), {}, at::Reduction::None, -100)
              .view({2, 4});
      const at::Tensor weight = Drawn({2, 4}, 4).to(sums);
      (expected * weight).sum().backward();
      for (const int degree : {1, 2, 4, 13}) {
        SCOPED_TRACE(testing::Message() << type << ", scale " << scale << ", degree " << degree);
        OnRanks(degree, [&](Communicator& group) {
          const TensorSplit split{{kVocab, 6}, 0, 1, degree, group.rank()};
          const at::Tensor own = LocalLogits(logits, split);
          const at::Tensor losses = VocabParallelLosses(own, targets, split, group);
          EXPECT_EQ(losses.scalar_type(), sums);
          EXPECT_TRUE(losses.allclose(expected, 1e-6, 1e-6)) << losses << expected;
          (losses * weight).sum().backward();
          const at::Tensor theirs = logits.grad().narrow(-1, split.Parts()[0].whole, split.Parts()[0].size);
          EXPECT_TRUE(own.grad().allclose(theirs, type == at::kBFloat16 ? 1e-2 : 1e-5, 1e-6));
          EXPECT_EQ(own.grad().scalar_type(), type);
        });
      }
    }
  }
}

TEST(VocabParallelLosses, AllRanksHaveTheSameBits) {
  const at::Tensor logits = Drawn({3, 8, 50}, 9, 4), targets = torch::arange(24).view({3, 8});
  std::vector<at::Tensor> seen(4);
  OnRanks(4, [&](Communicator& group) {
    const TensorSplit split{{50, 6}, 0, 1, 4, group.rank()};
    seen[static_cast<size_t>(group.rank())] = VocabParallelLosses(LocalLogits(logits, split), targets, split, group);
  });
  for (const at::Tensor& losses : seen) EXPECT_TRUE(losses.equal(seen[0]));
}

TEST(VocabParallelLosses, ATargetOutsideOfTheVocabularyIsAnErrorOnEveryRank) {
  OnRanks(2, [&](Communicator& group) {
    const TensorSplit split{{5, 6}, 0, 1, 2, group.rank()};
    const at::Tensor logits = torch::zeros({1, 2, split.Parts()[0].size});
    for (const int64_t target : {5L, -1L})
      EXPECT_THROW(VocabParallelLosses(logits, torch::tensor({0L, target}).view({1, 2}), split, group),
                   c10::IndexError);
    EXPECT_THROW(VocabParallelLosses(logits, torch::zeros({1, 3}, at::kLong), split, group), c10::ValueError);
    EXPECT_THROW(VocabParallelLosses(torch::zeros({1, 2, 5}), torch::zeros({1, 2}, at::kLong), split, group),
                 c10::ValueError);
  });
}

TEST(VocabParallelWeight, EmbedsAsTheWholeTable) {
  const at::Tensor table = Drawn({11, 4}, 5).requires_grad_();
  const at::Tensor tokens = torch::tensor({0, 10, 3, 3, 7, 4}).view({2, 3}), gradient = Drawn({2, 3, 4}, 6);
  const at::Tensor expected = at::embedding(table, tokens);
  (expected * gradient).sum().backward();
  for (const int degree : {1, 2, 3, 4, 11}) {
    OnRanks(degree, [&](Communicator& group) {
      VocabParallelWeight own(11, 4, group);
      CopyFromWhole(own, {{"weight", table}});
      const at::Tensor rows = own.Embed(tokens);
      (rows * gradient).sum().backward();
      const at::Tensor sum = rows.detach().clone();
      group.AllReduceSum(sum);
      EXPECT_TRUE(sum.equal(expected)) << degree;
      EXPECT_TRUE(own.weight.grad().equal(CutFrom(table.grad(), own.split()))) << degree;
      for (const int64_t token : {11L, -1L})
        EXPECT_THROW(own.Embed(torch::tensor({token}).view({1, 1})), c10::IndexError);
    });
  }
}

TEST(VocabParallelWeight, NeedsATokenForEachRank) {
  ThreadsExchange exchange(3);
  const ThreadsCommunicator group(exchange, 0);
  EXPECT_THROW(VocabParallelWeight(2, 4, group), c10::ValueError);
}

TEST(GatherVocabulary, IsTheWholeAndGivesBackEachPart) {
  const at::Tensor logits = Drawn({2, 3, 7}, 8), gradient = Drawn({2, 3, 7}, 9);
  for (const int degree : {1, 2, 3, 5}) {
    OnRanks(degree, [&](Communicator& group) {
      const TensorSplit split{{7, 6}, 0, 1, degree, group.rank()};
      const at::Tensor own = LocalLogits(logits, split);
      const at::Tensor whole = GatherVocabulary(own, split, group);
      EXPECT_TRUE(whole.equal(logits)) << degree;
      (whole * gradient).sum().backward();
      EXPECT_TRUE(own.grad().equal(gradient.narrow(-1, split.Parts()[0].whole, split.Parts()[0].size))) << degree;
    });
  }
}

// The memory of a step of a model with a large vocabulary, in bytes, without parameters.
struct StepMemory {
  int64_t peak = 0, largest = 0;
};

StepMemory MeasureStep(Model& model, const Batch& batch, AllocationRecorder& recorder) {
  EXPECT_TRUE(recorder.Start().ok());
  {
    const at::Tensor loss = model.loss(model.forward(batch), batch).total;
    loss.backward();
  }
  recorder.Stop();
  const AllocationHistory history = recorder.History();
  StepMemory memory{.peak = PeakOf(history, 0, history.events.size())};
  for (const AllocationEvent& event : history.events)
    if (event.kind == AllocationEvent::Kind::kAlloc) memory.largest = std::max(memory.largest, event.bytes);
  return memory;
}

// Logits and their gradient are most of the memory.
TEST(VocabParallelLosses, NoRankHasTheWholeLogits) {
  const GptOptions gpt{.layers = 1, .heads = 4, .width = 16, .context = 32, .vocab = 8190};
  Batch batch;
  batch.inputs = torch::arange(4 * 32).view({4, 32});
  batch.targets = batch.inputs + 1;
  batch.num_samples = 4;
  const int64_t whole_logits = 4 * 32 * gpt.vocab * 4;
  AllocationRecorder alone(1 << 16);
  const StepMemory one = MeasureStep(*MakeGpt(gpt), batch, alone);
  EXPECT_GE(one.largest, whole_logits);
  std::printf("| degree | peak of a step | largest tensor |\n| 1 | %ld | %ld |\n", one.peak, one.largest);
  for (const int degree : {2, 4}) {
    StepMemory first;
    OnRanks(degree, [&](Communicator& group) {
      AllocationRecorder recorder(1 << 16);
      MarkedCommunicator marked(group, recorder);
      const std::shared_ptr<Model> model = MakeTensorParallelGpt(gpt, *MakeGpt(gpt), marked);
      const StepMemory memory = MeasureStep(*model, batch, recorder);
      if (group.rank() == 0) first = memory;
    });
    std::printf("| %d | %ld | %ld |\n", degree, first.peak, first.largest);
    EXPECT_LE(first.largest, whole_logits / degree + 4 * 32 * 4);
    EXPECT_LT(static_cast<double>(first.peak), 1.1 * static_cast<double>(one.peak) / degree);
  }
}

}  // namespace
}  // namespace composer
