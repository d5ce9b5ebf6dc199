// Training on samples that can only be read in order: the same batches as by index, resumed anywhere, on any number of
// ranks.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>

#include "absl/strings/numbers.h"
#include "checkpoint/format/diff.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/core/batch.h"
#include "trainer/data/sample_order.h"

namespace composer {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// The rows of another dataset, in order; every epoch gives `size` of them.
class Streamed final : public IterableDataset {
 public:
  Streamed(std::shared_ptr<const Dataset> rows, int64_t size, bool has_places)
      : rows_(std::move(rows)), size_(size), has_places_(has_places) {}
  std::unique_ptr<SampleStream> Open(int64_t /*epoch*/) const override { return std::make_unique<Pass>(*this); }
  Batch Collate(int64_t /*epoch*/, std::vector<Sample> samples) const override {
    std::vector<int64_t> ids;
    for (const Sample& sample : samples) ids.push_back(sample.id);
    return rows_->Load(ids);
  }

 private:
  class Pass final : public SampleStream {
   public:
    explicit Pass(const Streamed& data) : data_(data) {}
    bool Next(Sample& sample) override {
      if (next_ >= data_.size_) return false;
      sample.id = next_++;
      return true;
    }
    std::string Place() const override { return data_.has_places_ ? std::to_string(next_) : ""; }
    void Seek(const std::string& place) override {
      TORCH_CHECK_VALUE(data_.has_places_ && absl::SimpleAtoi(place, &next_), "no place: ", place);
    }

   private:
    const Streamed& data_;
    int64_t next_ = 0;
  };

  const std::shared_ptr<const Dataset> rows_;
  const int64_t size_;
  const bool has_places_;
};

// 12 batches of 8 samples: epochs of 5, 5 and 2, the last of an epoch short (37 samples).
TrainerOptions Options(const std::string& folder, bool stream, bool has_places = true) {
  TrainerOptions options = SmallRun();
  options.train.dataset = MakeRows(37);
  if (stream) options.train.dataset = std::make_shared<Streamed>(MakeRows(37), 37, has_places);
  options.train.shuffle = false;
  options.max_duration = Time::Batches(12);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(100);
  return options;
}

TEST(Streams, TrainAsTheSameSamplesByIndexDo) {
  const RunResult indexed = Train(Options("", false));
  ExpectSameBits(Train(Options("", true)), indexed);
  EXPECT_EQ(indexed.timestamp.epoch, 2);
  EXPECT_EQ(indexed.timestamp.sample, 37 + 37 + 16);
  TrainerOptions threads = Options("", true);
  threads.train.prefetch.num_workers = 3;
  ExpectSameBits(Train(std::move(threads)), indexed);
  const auto ranks = TrainOnRanks(2, [](int) { return Options("", true); });
  const auto indexed_ranks = TrainOnRanks(2, [](int) { return Options("", false); });
  for (int rank : {0, 1}) ExpectSameBits(ranks[rank], indexed_ranks[rank]);
}

class StreamResumption : public testing::TestWithParam<std::tuple<int64_t, bool>> {};

TEST_P(StreamResumption, IsBitExact) {
  const auto [batch, has_places] = GetParam();
  const TempDir undisturbed, disturbed;
  ASSERT_TRUE(Train(Options(undisturbed.path(), true, has_places)).status.ok());
  DrainAt drain(batch);
  TrainerOptions first = Options(disturbed.path(), true, has_places);
  first.supervision = &drain;
  first.train.prefetch.num_workers = 2;  // reads ahead of what is trained on
  EXPECT_EQ(Train(std::move(first)).status.code(), absl::StatusCode::kCancelled);
  const RunResult resumed = Train(Options(disturbed.path(), true, has_places));
  ASSERT_TRUE(resumed.status.ok()) << resumed.status;
  EXPECT_EQ(resumed.losses.size(), static_cast<size_t>(12 - batch));
  EXPECT_THAT(DiffStates(NewestCheckpoint(undisturbed.path()), NewestCheckpoint(disturbed.path())), IsEmpty());
}

TEST_P(StreamResumption, GoesOnOnOtherRanks) {
  const auto [batch, has_places] = GetParam();
  const TempDir folder;
  DrainAt drain(batch);
  TrainOnRanks(2, [&, with_places = has_places](int) {
    TrainerOptions options = Options(folder.path(), true, with_places);
    options.supervision = &drain;
    return options;
  });
  const auto resumed =
      TrainOnRanks(3, [&, with_places = has_places](int) { return Options(folder.path(), true, with_places); });
  const RunResult whole = Train(Options("", true));
  for (const RunResult& rank : resumed) {
    ASSERT_TRUE(rank.status.ok()) << rank.status;
    EXPECT_LT(LargestDifference(rank, whole), 1e-5);
  }
}

// Within an epoch, after its last batch (the short one), and after the first of the next.
INSTANTIATE_TEST_SUITE_P(Batches, StreamResumption,
                         testing::Combine(testing::Values<int64_t>(2, 5, 6), testing::Bool()));

TEST(Streams, AnEpochOfUnknownLengthIsNoDuration) {
  TrainerOptions options = Options("", true);
  options.max_duration = Time::Epochs(2);
  EXPECT_THAT(std::string(Train(std::move(options)).status.message()),
              HasSubstr("max_duration: 2ep is not allowed; the length of an epoch is not known"));
  options = Options("", true);
  options.max_duration = Time::Epochs(2);
  options.train.train_subset_num_batches = 3;
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.timestamp.batch, 6);
  EXPECT_EQ(result.timestamp.epoch, 2);
}

TEST(Streams, WithoutSamplesAreAnError) {
  TrainerOptions options = Options("", true);
  options.train.dataset = std::make_shared<Streamed>(MakeRows(37), 0, true);
  EXPECT_THAT(std::string(Train(std::move(options)).status.message()),
              HasSubstr("train_dataloader: the data gives no batch in epoch 0"));
}

TEST(Streams, AnOrderIsRefused) {
  TrainerOptions options = Options("", true);
  options.train.make_order = [](const OrderRequest& request) { return MakeSequentialOrder(request.size); };
  EXPECT_THAT(std::string(Train(std::move(options)).status.message()),
              HasSubstr("order: the samples of this dataset can only be read in its own order"));
}

TEST(Streams, EvaluateAsTheSameSamplesByIndexDo) {
  const auto evaluated = [](bool stream, int ranks) {
    const auto options = [&](int) {
      TrainerOptions result = Options("", stream);
      EvaluatorOptions evaluator;
      evaluator.dataset = MakeRows(21);
      if (stream) evaluator.dataset = std::make_shared<Streamed>(MakeRows(21), 21, false);
      evaluator.batch_size = 4;
      result.evaluators = {evaluator};
      return result;
    };
    return TrainOnRanks(ranks, options)[0].eval_results;
  };
  for (const int ranks : {1, 2}) {
    ASSERT_FALSE(evaluated(true, ranks).empty());
    EXPECT_EQ(evaluated(true, ranks), evaluated(false, ranks));
  }
}

// An epoch goes on with another batch size after exactly the samples that were trained on.
TEST(BatchSize, ChangedInMidEpochRepeatsAndSkipsNothing) {
  const TempDir folder;
  std::map<int64_t, int> times;  // in the first epoch
  const auto options = [&](int64_t batch_size, Time duration) {
    TrainerOptions result = SmallRun();
    result.train.dataset = MakeRows(37);
    result.train.global_train_batch_size = batch_size;
    result.max_duration = duration;
    result.save.save_folder = folder.path();
    result.may_change = [](absl::string_view) { return true; };
    AddCallback(result, {Event::kAfterDataloader}, [&](State& state) {
      if (state.timestamp.epoch > 0) return;
      for (const int64_t id : state.batch.sample_ids) ++times[id];
    });
    return result;
  };
  ASSERT_TRUE(Train(options(8, Time::Batches(3))).status.ok());
  const RunResult rest = Train(options(5, Time::Epochs(1)));
  ASSERT_TRUE(rest.status.ok()) << rest.status;
  EXPECT_EQ(rest.timestamp.batch, 3 + 3) << "13 samples were left";
  EXPECT_EQ(rest.timestamp.sample, 37);
  ASSERT_EQ(times.size(), 37u);
  for (const auto& [id, count] : times) EXPECT_EQ(count, 1) << id;
}

}  // namespace
}  // namespace composer
