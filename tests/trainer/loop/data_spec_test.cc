// Tests DataSpec: what is done with each batch of a loader, and batches whose tensors have no row a sample.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

using testing::HasSubstr;

constexpr int64_t kFeatures = 8;

// The rows of another dataset, laid end to end: inputs [B * 8].
class Flat final : public Dataset {
 public:
  explicit Flat(std::shared_ptr<const Dataset> rows) : rows_(std::move(rows)) {}
  int64_t size() const override { return rows_->size(); }
  Batch Load(absl::Span<const int64_t> indices) const override {
    Batch batch = rows_->Load(indices);
    batch.inputs = batch.inputs.reshape({-1});
    return batch;
  }

 private:
  const std::shared_ptr<const Dataset> rows_;
};

DataSpec FlatSpec() {
  DataSpec spec;
  spec.split_batch = [](const Batch& batch, int64_t begin, int64_t end) {
    Batch part;
    part.inputs = batch.inputs.slice(0, begin * kFeatures, end * kFeatures);
    part.targets = batch.targets.slice(0, begin, end);
    part.num_samples = end - begin;
    return part;
  };
  spec.microbatch_transform = [](Batch batch) {
    batch.inputs = batch.inputs.view({-1, kFeatures});
    return batch;
  };
  return spec;
}

TrainerOptions Job(bool flat, int virtual_shards = 0) {
  TrainerOptions options = SmallRun();
  options.device_train_microbatch_size = 2;
  options.virtual_shards = virtual_shards;
  EvaluatorOptions evaluator;
  evaluator.dataset = MakeRows(23, kFeatures, 4, 0, /*start=*/5);
  evaluator.batch_size = 5;
  evaluator.device_eval_microbatch_size = 2;
  if (flat) {
    options.train.dataset = std::make_shared<Flat>(options.train.dataset);
    evaluator.dataset = std::make_shared<Flat>(evaluator.dataset);
    options.train.spec = evaluator.spec = FlatSpec();
  }
  options.evaluators.push_back(std::move(evaluator));
  return options;
}

TEST(DataSpec, ABatchIsSplitAsItSays) {
  const RunResult rows = Train(Job(false)), flat = Train(Job(true));
  ExpectSameBits(rows, flat);
  EXPECT_EQ(rows.eval_results, flat.eval_results);
  ExpectSameBits(Train(Job(false, 8)), Train(Job(true, 8)));
}

TEST(DataSpec, ABatchIsSplitAsItSaysOnSeveralRanks) {
  const auto rows = TrainOnRanks(3, [](int) { return Job(false); });
  const auto flat = TrainOnRanks(3, [](int) { return Job(true); });
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    ExpectSameBits(rows[rank], flat[rank]);
    EXPECT_EQ(rows[rank].eval_results, flat[rank].eval_results);
  }
}

TEST(DataSpec, ASplitOfAnotherSizeIsAnError) {
  TrainerOptions options = Job(true);
  options.train.spec.split_batch = [](const Batch& batch, int64_t, int64_t) { return batch; };
  EXPECT_THAT(std::string(Train(std::move(options)).status.message()),
              HasSubstr("split_batch gave 8 samples (Batch::num_samples) for the samples [0, 2) of a batch"));
}

TEST(DataSpec, ABatchIsTransformedOnceAndBeforeItsEvents) {
  TrainerOptions doubled = SmallRun(), plain = SmallRun();
  int seen = 0;
  doubled.train.spec.batch_transform = [&](Batch batch) {
    ++seen;
    batch.inputs = batch.inputs * 2;
    return batch;
  };
  float largest = 0;
  AddCallback(doubled, {Event::kAfterDataloader},
              [&](State& state) { largest = std::max(largest, state.batch.inputs.max().item<float>()); });
  AddCallback(plain, {Event::kAfterDataloader}, [](State& state) { state.batch.inputs = state.batch.inputs * 2; });
  ExpectSameBits(Train(std::move(doubled)), Train(std::move(plain)));
  EXPECT_EQ(seen, 10);
  EXPECT_GT(largest, 1);
}

TEST(DataSpec, SamplesAndTokensAreCountedAsItSays) {
  TrainerOptions options = SmallRun();
  options.train.spec.get_num_tokens_in_batch = [](const Batch& batch) { return 3 * batch.inputs.size(0); };
  options.train.spec.get_num_samples_in_batch = [](const Batch& batch) { return batch.inputs.size(0); };
  options.max_duration = Time::Tokens(240);
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.timestamp.token, 240);
  EXPECT_EQ(result.timestamp.sample, 80);
}

TEST(DataSpec, PredictionsTakeIt) {
  auto trainer = Trainer::Create(SmallRun());
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  Trainer::PredictOptions plain;
  plain.dataset = MakeRows(23);
  plain.batch_size = 5;
  Trainer::PredictOptions flat = plain;
  flat.dataset = std::make_shared<Flat>(plain.dataset);
  flat.spec.batch_transform = FlatSpec().microbatch_transform;
  const auto rows = (*trainer)->Predict(plain), same = (*trainer)->Predict(flat);
  ASSERT_TRUE(rows.ok() && same.ok()) << rows.status() << same.status();
  ASSERT_EQ(rows->size(), same->size());
  for (size_t i = 0; i < rows->size(); ++i) EXPECT_TRUE((*rows)[i].tensor().equal((*same)[i].tensor())) << i;
}

}  // namespace
}  // namespace composer
