// The loss by chunks of tokens is that of whole logits, with all gradients, in less memory.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/chunked_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdio>

#include "trainer/loop/autocast.h"
#include "trainer/memory/allocation_recorder.h"
#include "trainer/models/gpt.h"
#include "trainer/models/language_model.h"

namespace composer {
namespace {

using testing::HasSubstr;

constexpr GptOptions kSmallGpt = {.layers = 2, .heads = 2, .width = 16, .context = 12, .vocab = 97};

Batch TokensFor(const GptOptions& gpt, int64_t rows) {
  torch::manual_seed(5);
  const at::Tensor tokens = torch::randint(gpt.vocab, {rows, gpt.context + 1}, at::kLong);
  Batch batch;
  batch.inputs = tokens.slice(1, 0, gpt.context).contiguous();
  batch.targets = tokens.slice(1, 1).contiguous();
  batch.targets[0].slice(0, 3, 8).fill_(-100);
  batch.num_samples = rows;
  return batch;
}

std::shared_ptr<Model> GptWith(const GptOptions& gpt, int64_t chunk) {
  torch::manual_seed(3);
  std::shared_ptr<Model> model = MakeGpt(gpt);
  dynamic_cast<LanguageModel&>(*model).SetLossChunk(chunk);
  return model;
}

struct Step {
  at::Tensor loss, by_sample;
  std::vector<at::Tensor> gradients;
  double metric = 0;
};

Step StepOf(const GptOptions& gpt, int64_t chunk, bool bf16 = false) {
  const auto model = GptWith(gpt, chunk);
  const Batch batch = TokensFor(gpt, 5);
  const AutocastScope autocast(bf16 ? Precision::kAmpBf16 : Precision::kFp32, at::kCPU);
  Step step;
  const Outputs outputs = model->forward(batch);
  step.loss = model->loss(outputs, batch).total;
  step.by_sample = model->sample_losses(outputs, batch).detach();
  step.loss.backward();
  for (const at::Tensor& param : model->parameters()) step.gradients.push_back(param.grad());
  const MetricList metrics = model->metrics(/*is_train=*/true);
  metrics[0]->Update(outputs.Detached(), batch);
  step.metric = metrics[0]->Compute();
  return step;
}

void ExpectSameStep(const Step& a, const Step& b, double tolerance) {
  EXPECT_NEAR(a.loss.item<double>(), b.loss.item<double>(), tolerance);
  EXPECT_NEAR(a.metric, b.metric, tolerance);
  EXPECT_LT((a.by_sample - b.by_sample).abs().max().item<double>(), tolerance);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i)
    EXPECT_LE((a.gradients[i] - b.gradients[i]).norm().item<double>(), tolerance * b.gradients[i].norm().item<double>())
        << i;
}

TEST(ChunkedLoss, LossMetricAndGradientsAreThoseOfWholeLogits) {
  for (const bool tied : {true, false}) {
    GptOptions gpt = kSmallGpt;
    gpt.tied_head = tied;
    const Step whole = StepOf(gpt, 0);
    for (const int64_t chunk : {1, 7, 12, 59, 60, 1000}) ExpectSameStep(StepOf(gpt, chunk), whole, 1e-5);
    ExpectSameStep(StepOf(gpt, 7, /*bf16=*/true), StepOf(gpt, 0, /*bf16=*/true), 2e-2);
  }
}

TEST(ChunkedLoss, DropoutBeforeTheHeadIsDrawnOnce) {
  GptOptions gpt = kSmallGpt;
  gpt.dropout = 0.3;
  ExpectSameStep(StepOf(gpt, 7), StepOf(gpt, 0), 1e-5);
}

TEST(ChunkedLoss, EvaluationHasTheSameMetricsAndPredictionsAreLogits) {
  const auto model = GptWith(kSmallGpt, 7), whole = GptWith(kSmallGpt, 0);
  model->eval();
  whole->eval();
  const torch::NoGradGuard no_grad;
  const Batch batch = TokensFor(kSmallGpt, 3);
  EXPECT_EQ(model->eval_forward(batch)->sizes(), batch.targets.sizes());
  const MetricList metrics = model->metrics(false), expected = whole->metrics(false);
  for (size_t i = 0; i < metrics.size(); ++i) {
    metrics[i]->Update(model->eval_forward(batch), batch);
    expected[i]->Update(whole->eval_forward(batch), batch);
    EXPECT_NEAR(metrics[i]->Compute(), expected[i]->Compute(), 1e-4) << metrics[i]->name();
    metrics[i]->Reset();
    metrics[i]->Update(model->forward(batch), batch);  // logits
    EXPECT_NEAR(metrics[i]->Compute(), expected[i]->Compute(), 1e-4) << metrics[i]->name();
  }
  EXPECT_TRUE(model->forward(batch)->equal(whole->forward(batch).tensor()));
}

// Returns the most bytes that tensors made in a step have together.
int64_t PeakBytes(const GptOptions& gpt, int64_t chunk) {
  const auto model = GptWith(gpt, chunk);
  const Batch batch = TokensFor(gpt, 4);
  AllocationRecorder recorder(1 << 20);
  EXPECT_TRUE(recorder.Start().ok());
  model->loss(model->forward(batch), batch).total.backward();
  recorder.Stop();
  int64_t now = 0, most = 0;
  for (const AllocationEvent& event : recorder.History().events) {
    now += event.kind == AllocationEvent::Kind::kAlloc ? event.bytes : -event.bytes;
    most = std::max(most, now);
  }
  return most;
}

TEST(ChunkedLoss, ThePeakHasTheLogitsOfOneChunk) {
  const GptOptions gpt = {.layers = 1, .heads = 1, .width = 8, .context = 256, .vocab = 20000, .tied_head = false};
  const int64_t logits = 4 * gpt.context * gpt.vocab * 4, weights = 3 * gpt.vocab * gpt.width * 4;
  const int64_t whole = PeakBytes(gpt, 0), chunked = PeakBytes(gpt, 64);
  EXPECT_GT(whole, 2 * logits);
  // A chunk has a sixteenth of them: logits, their softmax and its gradient; and there are gradients of the weights.
  EXPECT_LT(chunked, 4 * logits / 16 + 2 * weights + (8 << 20));
  EXPECT_LT(chunked, whole / 4);
  std::printf("peak of a step: %.1f MB with whole logits, %.1f MB in chunks\n", static_cast<double>(whole) / 1e6,
              static_cast<double>(chunked) / 1e6);
}

TEST(ChunkedLoss, WhatNeedsLogitsIsRefused) {
  const auto model = GptWith(kSmallGpt, 7);
  Batch batch = TokensFor(kSmallGpt, 2);
  const Outputs outputs = model->forward(batch);
  batch.targets = torch::rand({2, 12, 97});
  try {
    model->loss(outputs, batch);
    FAIL() << "dense targets have no loss by chunks";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what(), HasSubstr("loss_chunk_tokens: the model returned the losses of targets"));
  }
  EXPECT_THROW(model->forward(batch), c10::ValueError);
}

}  // namespace
}  // namespace composer
