// Tests who sees EMA's averages in a run, and who sees the weights being trained.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/algorithms/ema_runs.h"
#include "trainer/callbacks/output/export_for_inference.h"

namespace composer {
namespace {

using testing::HasSubstr;

const ModelShape kBatchNorm = {.batch_norm = true};

Tensors LiveTensors(const State& state) {
  Tensors result;
  for (const auto& item : state.model->named_parameters()) result.emplace(item.key(), item.value().detach().clone());
  for (const auto& item : state.model->named_buffers()) result.emplace(item.key(), item.value().clone());
  return result;
}

Tensors KeptTensors(const Algorithm& algorithm) {
  Tensors result;
  for (const KeptTensor& kept : algorithm.tensors()) result.emplace(kept.name, kept.tensor.detach().clone());
  return result;
}

TrainerOptions EvaluatedRun() {
  TrainerOptions options = SmallRun(kBatchNorm);
  EvaluatorOptions evaluator;
  evaluator.dataset = MakeRows(24, 8, 4, 0, 3);
  evaluator.batch_size = 8;
  evaluator.eval_interval = Time::Batches(3);
  evaluator.metric_names = {"CrossEntropy"};
  options.evaluators.push_back(evaluator);
  return options;
}

TEST(Ema, EvaluationHasTheAveragesAndTrainingItsWeightsBitForBit) {
  const RunResult plain = Train(EvaluatedRun());
  TrainerOptions options = EvaluatedRun();
  const Ema* ema = &AddEma(options, HalfLife(Time::Batches(5)));
  Tensors weights, averages;
  int evaluations = 0;
  AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
    weights = LiveTensors(state);
    averages = KeptTensors(*ema);
    EXPECT_EQ(SameBits(weights, averages), state.timestamp.batch == 1);
  });
  AddCallback(options, {Event::kEvalStart, Event::kEvalBatchStart, Event::kEvalAfterForward}, [&](State& state) {
    EXPECT_TRUE(SameBits(LiveTensors(state), averages));
    EXPECT_TRUE(SameBits(KeptTensors(*ema), weights)) << "what is trained on is kept meanwhile";
  });
  AddCallback(options, {Event::kEvalEnd, Event::kBatchStart}, [&](State& state) {
    if (averages.empty()) return;
    EXPECT_TRUE(SameBits(LiveTensors(state), weights));
    EXPECT_TRUE(SameBits(KeptTensors(*ema), averages));
    ++evaluations;
  });
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_GE(evaluations, 3);
  EXPECT_EQ(result.losses, plain.losses);
  EXPECT_EQ(LargestDifference(result, plain), 0);
  EXPECT_NE(result.eval_results.at(0).second, plain.eval_results.at(0).second);
}

TEST(Ema, OfABufferThatCountsIsTheCount) {
  TrainerOptions options = EvaluatedRun();
  const Ema* ema = &AddEma(options, HalfLife(Time::Batches(5)));
  AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
    EXPECT_EQ(KeptTensors(*ema).at("norm.num_batches_tracked").item<int64_t>(), state.timestamp.batch);
  });
  ASSERT_TRUE(Train(std::move(options)).status.ok());
}

TEST(Ema, PredictionHasTheAverages) {
  TrainerOptions options = EvaluatedRun();
  const Ema* ema = &AddEma(options, HalfLife(Time::Batches(5)));
  auto trainer = Trainer::Create(std::move(options));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ASSERT_TRUE((*trainer)->Fit().ok());
  const Tensors weights = LiveTensors((*trainer)->state()), averages = KeptTensors(*ema);
  const auto outputs = (*trainer)->Predict({.dataset = MakeRows(4), .batch_size = 4});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const at::Tensor inputs = MakeRows(4)->Load({0, 1, 2, 3}).inputs;
  const auto with = [&](const Tensors& t) {
    const at::Tensor hidden = at::linear(inputs, t.at("first.weight"), t.at("first.bias"));
    const at::Tensor scaled =
        (hidden - t.at("norm.running_mean")) / (t.at("norm.running_var") + 1e-5).sqrt() * t.at("norm.weight") +
        t.at("norm.bias");
    return at::linear(scaled.relu(), t.at("second.weight"), t.at("second.bias"));
  };
  EXPECT_TRUE((*outputs)[0]->allclose(with(averages), 1e-4, 1e-5));
  EXPECT_FALSE((*outputs)[0]->allclose(with(weights), 1e-4, 1e-5));
  EXPECT_TRUE(SameBits(LiveTensors((*trainer)->state()), weights));
}

TEST(Ema, BeforeItBeginsThereIsNoSecondCopy) {
  TrainerOptions options = EvaluatedRun();
  EmaArguments arguments = HalfLife(Time::Batches(5));
  arguments.ema_start = Time::Batches(7);
  const Ema* ema = &AddEma(options, arguments);
  AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
    EXPECT_EQ(ema->tensors().empty(), state.timestamp.batch < 7) << state.timestamp.batch;
  });
  ASSERT_TRUE(Train(std::move(options)).status.ok());
}

TEST(Ema, AnEvaluationThatFailsLeavesTheWeightsForTheNextFit) {
  const TempDir folder;
  const auto run = [&](bool fail) {
    TrainerOptions options = EvaluatedRun();
    AddEma(options, HalfLife(Time::Batches(5)));
    options.callbacks.push_back(
        std::make_unique<OnEvent>(EventSet{Event::kEvalBatchStart}, [fail, n = 0](Event, State& state) mutable {
          return fail && state.timestamp.batch == 6 && n++ == 0 ? absl::InternalError("no") : absl::OkStatus();
        }));
    auto trainer = Trainer::Create(std::move(options)).value();
    if (fail) {
      EXPECT_FALSE(trainer->Fit().ok());
      // A save finds each set of values where it belongs, although the model currently holds the averages.
      EXPECT_TRUE(trainer->SaveCheckpoint(folder.path()).ok());
      const Tensors saved = NewestTensors(folder.path());
      EXPECT_TRUE(SameBits(Below(saved, "model/"), LiveTensors(trainer->state())));
    }
    EXPECT_TRUE(trainer->Fit().ok());
    return LiveTensors(trainer->state());
  };
  EXPECT_TRUE(SameBits(run(true), run(false)));
}

TEST(Ema, ExportsTheAverages) {
  const TempDir folder;
  TrainerOptions options = EvaluatedRun();
  const Ema* ema = &AddEma(options, HalfLife(Time::Batches(5)));
  options.callbacks.push_back(
      std::make_unique<ExportForInference>(ExportForInference::Options{.folder = folder.path()}));
  auto trainer = Trainer::Create(std::move(options)).value();
  ASSERT_TRUE(trainer->Fit().ok());
  const std::string file = ReadFile(folder.Path("model.safetensors")).value();
  for (const auto& [name, tensor] : KeptTensors(*ema)) {
    const std::string bytes(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    EXPECT_NE(file.find(bytes), std::string::npos) << name;
  }
}

TEST(Ema, OneAverageOnly) {
  TrainerOptions options = EvaluatedRun();
  AddEma(options, HalfLife(Time::Batches(5)));
  AddEma(options, HalfLife(Time::Batches(9)));
  const absl::Status status = Train(std::move(options)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a run has one average of its weights"));
}

}  // namespace
}  // namespace composer
