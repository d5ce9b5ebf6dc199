// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/streaming_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "data/mds/writer.h"
#include "storage/local_store.h"
#include "tests/support/temp_dir.h"
#include "trainer/data/data_loader.h"
#include "trainer/data/prepared_dataset.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes samples `first`, `first` + 1, …: their number, a text, and a row of as many tokens as its last digit and one.
void WriteNumbers(const std::string& folder, int64_t first, int64_t count) {
  MdsWriterOptions options;
  options.columns = {{"label", "int"}, {"text", "str"}, {"tokens", "ndarray:uint16"}};
  options.size_limit = 400;
  const auto writer = MdsWriter::Create(std::make_shared<LocalStore>(folder), options).value();
  const MdsEncoding tokens = ParseMdsEncoding("ndarray:uint16").value();
  for (int64_t i = first; i < first + count; ++i) {
    const std::vector<uint16_t> row(static_cast<size_t>(i % 10 + 1), static_cast<uint16_t>(60'000 + i));
    const MdsArray array{MdsNumber::kUint16,
                         {static_cast<int64_t>(row.size())},
                         {reinterpret_cast<const char*>(row.data()), 2 * row.size()}};
    const std::string label(reinterpret_cast<const char*>(&i), sizeof i), text = absl::StrCat("sample ", i);
    const std::string values = WriteArray(tokens, array).value();
    const absl::Status status = writer->Write({label, text, values});
    ASSERT_TRUE(status.ok()) << status;
  }
  ASSERT_TRUE(writer->Finish().ok());
}

class Streaming : public ::testing::Test {
 protected:
  Streaming() {
    WriteNumbers(folder_.Path("a"), 0, 40);
    WriteNumbers(folder_.Path("b"), 100, 21);
  }

  // Returns the labels of an epoch's global batches, each in rank order.
  static std::vector<int64_t> Epoch(const std::shared_ptr<const SampleSource>& source, int world, int64_t epoch) {
    std::vector<std::unique_ptr<DataLoader>> ranks;
    const auto dataset = PrepareSamples(source, {.transforms = {std::make_shared<const OnlyLabel>()}});
    for (int rank = 0; rank < world; ++rank) {
      LoaderOptions options{.global_batch_size = 8, .shuffle = true, .rank = rank, .world_size = world};
      options.order = dataset->OwnOrder({dataset->size(), 1, 8, world, true});
      ranks.push_back(std::make_unique<DataLoader>(dataset, options));
    }
    std::vector<int64_t> labels;
    for (int64_t at = 0; ranks[0]->SamplesAt(at) > 0; at += ranks[0]->SamplesAt(at)) {
      for (const auto& rank : ranks) {
        const at::Tensor own = rank->Load(epoch, at).batch.Get("label").contiguous();
        labels.insert(labels.end(), own.data_ptr<int64_t>(), own.data_ptr<int64_t>() + own.numel());
      }
    }
    return labels;
  }

  class OnlyLabel final : public SampleTransform {
    void Apply(Sample& sample, SampleRandom&) const override {
      sample.texts.clear();
      std::erase_if(sample.tensors, [](const auto& item) { return item.first != "label"; });
    }
  };

  TempDir folder_;
};

TEST_F(Streaming, ValuesAreTensorsAndTexts) {
  const auto source = *OpenStreaming({.streams = {{.local = folder_.Path("a")}}}, nullptr);
  ASSERT_EQ(source->size(), 40);
  const Sample sample = source->Get(23);
  EXPECT_EQ(sample.texts.at("text"), "sample 23");
  EXPECT_EQ(sample.tensors.at("label").item<int64_t>(), 23);
  EXPECT_TRUE(at::equal(sample.tensors.at("tokens"), torch::full({4}, 60'023, at::kLong))) << "unsigned, widened";
}

TEST_F(Streaming, EachSampleComesOnceAnEpochOnAnyNumberOfRanks) {
  for (const ShuffleAlgorithm shuffle : {ShuffleAlgorithm::kPy1e, ShuffleAlgorithm::kPy1s, ShuffleAlgorithm::kNaive}) {
    const auto source = *OpenStreaming(
        {.streams = {{.local = folder_.Path("a")}, {.local = folder_.Path("b")}}, .order = {.shuffle = shuffle}},
        nullptr);
    const std::vector<int64_t> one = Epoch(source, 1, 0);
    EXPECT_EQ(Epoch(source, 2, 0), one);
    EXPECT_EQ(Epoch(source, 5, 0), one);
    EXPECT_NE(Epoch(source, 1, 1), one);
    std::vector<int64_t> sorted = one, expected;
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < 40; ++i) expected.push_back(i);
    for (int64_t i = 100; i < 121; ++i) expected.push_back(i);
    EXPECT_EQ(sorted, expected);
  }
}

TEST_F(Streaming, WeightsDecideWhatAnEpochHasOfEachStream) {
  const auto source = *OpenStreaming(
      {.streams = {{.local = folder_.Path("a"), .choose = 10}, {.local = folder_.Path("b"), .repeat = 2}}}, nullptr);
  const std::vector<int64_t> labels = Epoch(source, 1, 0);
  EXPECT_EQ(std::count_if(labels.begin(), labels.end(), [](int64_t label) { return label < 100; }), 10);
  for (int64_t i = 100; i < 121; ++i) EXPECT_EQ(std::count(labels.begin(), labels.end(), i), 2) << i;
}

TEST_F(Streaming, ShardsAreFetchedIntoTheCacheOfTheNode) {
  const std::string cache = folder_.Path("cache");
  const auto source = *OpenStreaming({.streams = {{.local = cache, .remote = folder_.path(), .split = "a"}}}, nullptr);
  EXPECT_EQ(source->Get(39).texts.at("text"), "sample 39");
  EXPECT_FALSE(std::filesystem::is_empty(cache + "/a/composer-shards"));
}

TEST_F(Streaming, PartsOfShardsAreFetchedWhenTheyAreNeeded) {
  StreamingOptions options{.streams = {{.local = folder_.Path("cache"), .remote = folder_.path(), .split = "a"}}};
  options.range_bytes = 60;
  const auto source = *OpenStreaming(options, nullptr),
             whole = *OpenStreaming({.streams = {{.local = folder_.Path("a")}}}, nullptr);
  const auto stored = [&] {
    const std::filesystem::directory_iterator files(folder_.Path("cache/a/composer-shards"));
    return std::count_if(begin(files), end(files),
                         [](const auto& file) { return file.path().extension() == ".shard"; });
  };
  EXPECT_EQ(source->Get(20).texts.at("text"), "sample 20");
  EXPECT_EQ(stored(), 2) << "a shard's offsets, and the samples beside this one";
  source->WillLoad({39, 38, 0});
  while (stored() < 6) RealClock::Get().SleepFor(absl::Milliseconds(1));  // the test's time limit bounds it
  for (int64_t i = 0; i < source->size(); ++i) {
    EXPECT_EQ(source->Get(i).texts.at("text"), absl::StrCat("sample ", i));
    EXPECT_TRUE(at::equal(source->Get(i).tensors.at("tokens"), whole->Get(i).tensors.at("tokens")));
  }
  EXPECT_EQ(Epoch(source, 2, 1), Epoch(whole, 1, 1)) << "the order is that of the shards";
}

TEST_F(Streaming, WhatWillBeLoadedIsFetchedAhead) {
  const std::string cache = folder_.Path("cache");
  const auto source = *OpenStreaming({.streams = {{.local = cache, .remote = folder_.path(), .split = "a"}}}, nullptr);
  source->WillLoad({39, 38, 0});
  const auto stored = [&] {
    const std::filesystem::directory_iterator files(cache + "/a/composer-shards");
    return std::count_if(begin(files), end(files),
                         [](const auto& file) { return file.path().extension() == ".shard"; });
  };
  while (stored() < 2) RealClock::Get().SleepFor(absl::Milliseconds(1));  // the test's time limit bounds it
  std::filesystem::remove_all(folder_.Path("a"));
  EXPECT_EQ(source->Get(39).texts.at("text"), "sample 39");
  EXPECT_EQ(source->Get(0).texts.at("text"), "sample 0");
}

TEST_F(Streaming, MistakesNameStreamAndField) {
  EXPECT_THAT(std::string(OpenStreaming({.streams = {{.local = folder_.Path("none")}}}, nullptr).status().message()),
              HasSubstr(folder_.Path("none")));
  const auto mixed = OpenStreaming(
      {.streams = {{.local = folder_.Path("a"), .proportion = 1}, {.local = folder_.Path("b"), .repeat = 2}}}, nullptr);
  EXPECT_EQ(mixed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(mixed.status().message()), HasSubstr("proportion"));
}

}  // namespace
}  // namespace composer
