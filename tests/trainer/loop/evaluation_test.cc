// Tests that evaluation is exact however it is split, runs at the right times, and leaves no trace in the training.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/support/spawn_ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/collectives/broadcast_buffers.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/eval_loop.h"
#include "trainer/metrics/confusion_matrix.h"

namespace composer {
namespace {

using testing::ElementsAre;

TrainerOptions WithEvaluator(const ModelShape& shape = {}, Time interval = Time::Epochs(1)) {
  TrainerOptions options = SmallRun(shape);
  EvaluatorOptions evaluator;
  evaluator.dataset = MakeRows(23, 8, 4, 0, /*start=*/5);
  evaluator.batch_size = 4;
  evaluator.eval_interval = interval;
  options.evaluators.push_back(evaluator);
  return options;
}

TEST(Evaluation, BuffersOfAnyLayoutAreSharedTogether) {
  ThreadsExchange exchange(3);
  SpawnRanks(3, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    State state;
    state.model = MakeTestModel();
    const auto add = [&](const char* name, const at::Tensor& tensor) { state.model->register_buffer(name, tensor); };
    const float value = static_cast<float>(rank) + 1;
    add("plain", torch::full({3}, value));
    add("transposed", torch::full({2, 3}, value).t());
    add("expanded", torch::full({1, 2}, value).expand({4, 2}));
    add("empty", torch::empty({0}));
    add("count", torch::full({}, rank + 1, at::kLong));
    add("half", torch::full({2}, value, at::kHalf));
    BroadcastBuffers(state, communicator);
    for (const auto& item : state.model->named_buffers())
      EXPECT_TRUE(item.value().eq(1).all().item<bool>()) << item.key() << " on rank " << rank;
    EXPECT_EQ(communicator.num_collectives(), 3) << "one for each dtype";
  });
}

// Keeps the tables of a run.
class TableKeeper final : public LoggerDestination {
 public:
  explicit TableKeeper(std::vector<std::pair<std::string, std::vector<std::vector<std::string>>>>& tables)
      : tables_(tables) {}
  std::string name() const override { return "TableKeeper"; }
  absl::Status Write(const MetricRecord& /*record*/) override { return absl::OkStatus(); }
  absl::Status WriteTable(const TableRecord& record) override {
    EXPECT_THAT(record.columns, ElementsAre("target", "0", "1", "2", "3"));
    tables_.emplace_back(record.name, std::vector<std::vector<std::string>>(record.rows.begin(), record.rows.end()));
    return absl::OkStatus();
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::vector<std::string>>>>& tables_;
};

// One table for each evaluation, on any number of ranks the counts of all samples.
TEST(Evaluation, TheConfusionMatrixGoesToTheLoggers) {
  std::vector<std::pair<std::string, std::vector<std::vector<std::string>>>> first;
  for (const int ranks : {1, 3}) {
    ThreadsExchange exchange(ranks);
    SpawnRanks(ranks, [&](int rank) {
      ThreadsCommunicator communicator(exchange, rank);
      std::vector<std::pair<std::string, std::vector<std::vector<std::string>>>> tables;
      TrainerOptions options = WithEvaluator();
      options.communicator = &communicator;
      options.evaluators[0].make_metrics = [] {
        MetricList metrics;
        metrics.push_back(MakeMulticlassConfusionMatrix(4));
        return metrics;
      };
      options.loggers.push_back(std::make_unique<TableKeeper>(tables));
      ASSERT_TRUE(Train(std::move(options)).status.ok());
      if (rank > 0) return;
      ASSERT_EQ(tables.size(), 2) << "epochs";
      int64_t samples = 0;
      for (const auto& row : tables[1].second) {
        for (size_t i = 1; i < row.size(); ++i) samples += std::stoll(row[i]);
      }
      EXPECT_EQ(tables[1].first, "MulticlassConfusionMatrix/eval");
      EXPECT_EQ(samples, 23);
      if (ranks == 1) first = tables;
      EXPECT_EQ(tables[0], first[0]);
    });
  }
}

// Collects the ids of the samples that it saw; its value is their sum weighted by their rank in sorted order.
class Listing final : public Metric {
 public:
  std::string name() const override { return "Listing"; }
  void Update(const Outputs&, const Batch& batch) override {
    for (const int64_t id : batch.sample_ids) lists_[id % 2].push_back(static_cast<double>(id));
  }
  absl::Span<double> sums() override { return {}; }
  absl::Span<std::vector<double>> lists() override { return absl::MakeSpan(lists_); }
  double Compute() const override {
    double value = 0;
    for (std::vector<double> list : lists_) {
      std::sort(list.begin(), list.end());
      for (size_t i = 0; i < list.size(); ++i) value += static_cast<double>(i + 1) * list[i];
    }
    return value;
  }

 private:
  std::array<std::vector<double>, 2> lists_;
};

// Has the metric of lists, and logs a number of its own.
class ListingModel final : public Model {
 public:
  explicit ListingModel(bool also_training = false) : also_training_(also_training) {
    inner_ = register_module("inner", std::dynamic_pointer_cast<Model>(MakeTestModel()));
  }
  Outputs forward(const Batch& batch) override { return inner_->forward(batch); }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    if (logger != nullptr) logger->Log("model/samples", static_cast<double>(batch.num_samples));
    return inner_->loss(outputs, batch);
  }
  MetricList metrics(bool is_train) const override {
    MetricList metrics;
    if (!is_train || also_training_) metrics.push_back(std::make_unique<Listing>());
    return metrics;
  }

 private:
  std::shared_ptr<Model> inner_;
  bool also_training_;
};

TEST(Evaluation, FirstIsBeforeTheFirstStepAndNotRepeatedByARunThatResumes) {
  const TempDir folder;
  const auto train = [&](bool first, Time duration) {
    std::vector<int64_t> batches;  // at which evaluations began
    TrainerOptions options = WithEvaluator();
    options.eval_first = first;
    options.max_duration = duration;
    if (first) options.save.save_folder = folder.path();
    AddCallback(options, {Event::kEvalStart}, [&](State& state) { batches.push_back(state.timestamp.batch); });
    const RunResult result = Train(std::move(options));
    EXPECT_TRUE(result.status.ok()) << result.status;
    return std::make_pair(batches, result.losses);
  };
  const auto plain = train(false, Time::Epochs(1)), first = train(true, Time::Epochs(1));
  EXPECT_THAT(plain.first, testing::ElementsAre(5));
  EXPECT_THAT(first.first, testing::ElementsAre(0, 5));
  EXPECT_EQ(first.second, plain.second) << "an evaluation leaves training as it is";
  EXPECT_THAT(train(true, Time::Epochs(2)).first, testing::ElementsAre(10));
}

TEST(Evaluation, ListsAreThoseOfAllRanks) {
  double expected = 0;
  for (int64_t id = 0; id < 23; ++id) expected += static_cast<double>((id / 2 + 1) * id);
  for (const int size : {1, 2, 3, 5}) {
    for (const RunResult& rank : TrainOnRanks(size, [](int) {
           TrainerOptions options = WithEvaluator();
           options.model = std::make_shared<ListingModel>();
           options.evaluators[0].batch_size = 1;  // some ranks have no sample of the last batch
           return options;
         })) {
      ASSERT_TRUE(rank.status.ok()) << rank.status;
      ASSERT_EQ(rank.eval_results.size(), 1u);
      EXPECT_EQ(rank.eval_results[0].second, expected) << size;
    }
  }
}

TEST(Evaluation, AMetricOfListsIsNoneForTraining) {
  TrainerOptions options = SmallRun();
  options.model = std::make_shared<ListingModel>(/*also_training=*/true);
  EXPECT_EQ(Train(std::move(options)).status.message(),
            "train_metrics: Listing needs the outputs of all samples, which a step does not gather: give it to the "
            "evaluation, or set train_metrics_interval: 0");
}

TEST(Evaluation, AModelLogsNumbersOfItsOwn) {
  const auto model = std::make_shared<ListingModel>();
  TrainerOptions options = SmallRun();
  options.model = model;
  std::vector<double> logged;
  options.callbacks.push_back(std::make_unique<OnEvent>(EventSet{Event::kBatchEnd}, [&](Event, State& state) {
    logged.push_back(state.model->logger->Last("model/samples"));
    return absl::OkStatus();
  }));
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_EQ(logged, std::vector<double>(10, 8.0));
  EXPECT_EQ(model->logger, nullptr) << "the trainer is gone";
}

TEST(Evaluation, TokensAreThoseOfAllRanks) {
  for (const int size : {1, 3}) {
    std::vector<int64_t> tokens(static_cast<size_t>(size));
    TrainOnRanks(size, [&](int rank) {
      TrainerOptions options = WithEvaluator();
      options.evaluators[0].dataset = MakeRows(23, 8, 4, /*tokens_per_sample=*/10, /*start=*/5);
      AddCallback(options, {Event::kEvalEnd}, [&tokens, rank](State& state) {
        tokens[static_cast<size_t>(rank)] = state.evaluation.timestamp.token;
        EXPECT_EQ(state.evaluation.timestamp.sample, 23);
      });
      return options;
    });
    for (const int64_t all : tokens) EXPECT_EQ(all, 230);
  }
}

TEST(Evaluation, IsExactOnAnyNumberOfRanks) {
  // The gradients are 0, so that the weights have the same bits on any number of ranks.
  const auto options = [](int) {
    TrainerOptions result = WithEvaluator();
    result.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 0); };
    return result;
  };
  const RunResult one = Train(options(0));
  ASSERT_EQ(one.eval_results.size(), 2u);
  EXPECT_EQ(one.eval_results[0].first, "metrics/eval/MulticlassAccuracy");
  EXPECT_EQ(one.eval_results[1].first, "metrics/eval/CrossEntropy");
  const double right = one.eval_results[0].second * 23;
  EXPECT_NEAR(right, std::round(right), 1e-9) << "of 23 samples, each counted once";
  for (const int size : {2, 3, 5}) {
    for (const RunResult& result : TrainOnRanks(size, options)) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_NEAR(result.eval_results[0].second, one.eval_results[0].second, 1e-12) << size;
      EXPECT_NEAR(result.eval_results[1].second, one.eval_results[1].second, 1e-6) << size;
    }
  }
}

TEST(Evaluation, GivesTheModelsAccuracy) {
  TrainerOptions options = WithEvaluator();
  auto model = options.model;
  const RunResult result = Train(std::move(options));
  const torch::NoGradGuard no_grad;
  std::vector<int64_t> all(23);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  const Batch batch = MakeRows(23, 8, 4, 0, 5)->Load(all);
  const double expected = (model->forward(batch)->argmax(1) == batch.targets).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(result.eval_results[0].second, expected, 1e-12);
  EXPECT_GT(expected, 0.4) << "it learned nothing: the test would not see much";
}

TEST(Evaluation, AnErrorLeavesTheModelInTraining) {
  TrainerOptions options = WithEvaluator({}, Time::Batches(0));
  options.evaluators[0].device_eval_microbatch_size = 2;
  AddCallback(options, {Event::kEvalAfterForward},
              [](State&) { throw StatusError(absl::InternalError("on purpose")); });
  const auto trainer = Trainer::Create(std::move(options));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_THAT((*trainer)->Eval().message(), testing::HasSubstr("on purpose"));
  EXPECT_TRUE((*trainer)->state().model->is_training());
  EXPECT_EQ((*trainer)->state().batch.num_samples, 0) << "the evaluation's batch is gone";
}

// Returns the batch counts at which an evaluation ran.
std::vector<int64_t> RanAt(Time interval, Time max_duration) {
  std::vector<int64_t> batches;
  TrainerOptions options = WithEvaluator({}, interval);
  options.max_duration = max_duration;
  AddCallback(options, {Event::kEvalStart}, [&](State& state) { batches.push_back(state.timestamp.batch); });
  EXPECT_TRUE(Train(std::move(options)).status.ok());
  return batches;
}

TEST(Evaluation, FiresAtItsIntervalAndAtTheEnd) {
  EXPECT_THAT(RanAt(Time::Epochs(1), Time::Epochs(2)), ElementsAre(5, 10));
  EXPECT_THAT(RanAt(Time::Epochs(2), Time::Epochs(3)), ElementsAre(10, 15));
  EXPECT_THAT(RanAt(Time::Batches(4), Time::Epochs(2)), ElementsAre(4, 8, 10));
  EXPECT_THAT(RanAt(Time::Samples(20), Time::Epochs(2)), ElementsAre(3, 5, 8, 10));
  EXPECT_THAT(RanAt(Time::Duration(0.5), Time::Epochs(2)), ElementsAre(5, 10));
  EXPECT_THAT(RanAt(Time::Duration(0.3), Time::Batches(7)), ElementsAre(3, 6, 7));
  EXPECT_THAT(RanAt(Time::Epochs(1), Time::Batches(7)), ElementsAre(5, 7));
  EXPECT_THAT(RanAt(Time::Batches(100), Time::Batches(7)), ElementsAre(7));
  EXPECT_THAT(RanAt(Time::Batches(0), Time::Batches(7)), ElementsAre()) << "0: only when asked for";
}

TEST(Evaluation, SeveralEvaluatorsHaveTheirOwnIntervalsAndData) {
  TrainerOptions options = WithEvaluator({}, Time::Batches(5));
  EvaluatorOptions second;
  second.label = "small";
  second.dataset = MakeRows(3);
  second.eval_interval = Time::Batches(4);
  options.evaluators.push_back(second);
  std::vector<std::string> ran;
  AddCallback(options, {Event::kEvalStart}, [&](State& state) { ran.push_back(state.evaluation.label); });
  const RunResult result = Train(std::move(options));
  EXPECT_THAT(ran, ElementsAre("small", "eval", "small", "eval", "small"));
  EXPECT_EQ(result.eval_results.size(), 4u);
}

TEST(Evaluation, LeavesNoTraceInTheTraining) {
  const ModelShape shape{.batch_norm = true, .dropout = 0.5};
  const RunResult without = Train(SmallRun(shape));
  TrainerOptions options = WithEvaluator(shape, Time::Batches(1));
  int evaluated = 0, trained = 0;
  AddCallback(options, {Event::kEvalBeforeForward}, [&](State& state) {
    EXPECT_FALSE(state.model->is_training());
    ++evaluated;
  });
  AddCallback(options, {Event::kBeforeForward}, [&](State& state) {
    EXPECT_TRUE(state.model->is_training());
    ++trained;
  });
  AddCallback(options, {Event::kBatchCheckpoint},
              [&](State& state) { EXPECT_EQ(state.batch.num_samples, 8) << "the train batch is back"; });
  auto model = options.model;
  const RunResult with = Train(std::move(options));
  EXPECT_EQ(LargestDifference(without, with), 0);
  EXPECT_TRUE(model->is_training());
  EXPECT_EQ(evaluated, 10 * 6);
  EXPECT_EQ(trained, 10);
}

TEST(Evaluation, UsesRankZerosBuffers) {
  const auto results = TrainOnRanks(2, [](int) { return WithEvaluator({.batch_norm = true}); });
  ASSERT_TRUE(results[1].status.ok()) << results[1].status;
  EXPECT_EQ(results[0].tensors.size(), 9u) << "6 parameters, 3 buffers";
  EXPECT_EQ(LargestDifference(results[0], results[1]), 0);
  EXPECT_EQ(results[0].eval_results, results[1].eval_results);
}

TEST(Evaluation, SubsetEndsEarly) {
  TrainerOptions options = WithEvaluator();
  options.evaluators[0].subset_num_batches = 2;
  int batches = 0;
  AddCallback(options, {Event::kEvalBatchEnd}, [&](State&) { ++batches; });
  const RunResult result = Train(std::move(options));
  EXPECT_EQ(batches, 2 * 2);
  const double right = result.eval_results[0].second * 8;
  EXPECT_NEAR(right, std::round(right), 1e-9);
}

TEST(Evaluation, TwoOfOneLabelAreRefused) {
  TrainerOptions options = WithEvaluator();
  options.evaluators.push_back(options.evaluators[0]);
  const RunResult result = Train(std::move(options));
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status.message()), testing::HasSubstr("eval_dataloader label: eval"));
}

}  // namespace
}  // namespace composer
