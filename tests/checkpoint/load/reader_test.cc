// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/load/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/folder/verify.h"
#include "checkpoint/format/safetensors.h"
#include "storage/checksum.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/fault_store.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(FindNewestValid, AnEmptyFolderHasNone) {
  MemoryStore store;
  const CheckpointChoice choice = *FindNewestValid(store);
  EXPECT_EQ(choice.checkpoint, "");
  EXPECT_TRUE(choice.refused.empty());
}

TEST(FindNewestValid, NewestByBatchAndForeignThingsIgnored) {
  MemoryStore store;
  for (int64_t batch : {9, 10, 100}) ASSERT_TRUE(SaveOne(store, batch).ok());
  for (const char* key : {"ep0-ba200/attempt-0123456789abcdef/rank-00000.safetensors", "best/manifest.json",
                          "ep0-ba0300/manifest.json", "ep0-ba400", "notes.txt"}) {
    ASSERT_TRUE(store.Put(key, {"x"}).ok());
  }
  const CheckpointChoice choice = *FindNewestValid(store);
  EXPECT_EQ(choice.checkpoint, "ep0-ba100");
  EXPECT_TRUE(choice.refused.empty());
}

TEST(FindNewestValid, AManifestInAnotherStepsFolderIsRefused) {
  MemoryStore store;
  ASSERT_TRUE(SaveOne(store, 1).ok());
  for (const std::string& key : std::vector<std::string>(*store.List("ep0-ba1"))) {
    ASSERT_TRUE(store.Put("ep0-ba2" + key.substr(7), {*GetObject(store, key, 1 << 20)}).ok());
  }
  const CheckpointChoice choice = *FindNewestValid(store);
  EXPECT_EQ(choice.checkpoint, "ep0-ba1");
  EXPECT_THAT(choice.refused, testing::ElementsAre(HasSubstr("it is the manifest of ep0-ba1")));
}

TEST(FindNewestValid, AFolderThatCannotBeListedIsAnErrorNotAnEmptyOne) {
  MemoryStore memory;
  FaultStore store(memory);
  store.FailCalls(0, 1, absl::PermissionDeniedError("no"));
  EXPECT_EQ(FindNewestValid(store).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(FindNewestValid, WhatTheStoreDoesNotShowNowIsNotPassedOverForAnOlderOne) {
  MemoryStore memory;
  for (int64_t batch : {1, 2}) ASSERT_TRUE(SaveOne(memory, batch).ok());
  for (const char* part : {"ep0-ba2/manifest.json", ".safetensors"}) {
    FaultStore store(memory);
    store.OnlyFor(part);
    store.FailCalls(0, 1, absl::UnavailableError("503"));
    const absl::Status status = FindNewestValid(store).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << part;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot tell whether memory://ep0-ba2 is whole"));
  }
}

// A store that lacks the memory to read.
class ExhaustedStore final : public FaultStore {
 public:
  using FaultStore::FaultStore;
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override {
    if (offset > 0) throw std::bad_alloc();
    return FaultStore::Read(key, offset, into);
  }
};

TEST(FindNewestValid, OutOfMemoryIsNoDamage) {
  MemoryStore memory;
  for (int64_t batch : {1, 2}) ASSERT_TRUE(SaveOne(memory, batch).ok());
  ExhaustedStore store(memory);
  const absl::Status status = FindNewestValid(store).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ep0-ba2 is whole: out of host memory"));
}

TEST(ChooseCheckpoint, ARankThatCannotTellStopsAll) {
  MemoryStore memory;
  for (int64_t batch : {1, 2}) ASSERT_TRUE(SaveOne(memory, batch).ok());
  RunRanks(3, [&](RankExchange exchange) {
    ExhaustedStore without_memory(memory);
    ObjectStore& with_memory = memory;
    const auto choice = ChooseCheckpoint(exchange.rank() == 0 ? without_memory : with_memory, exchange);
    EXPECT_THAT(std::string(choice.status().message()), HasSubstr("out of host memory"));
  });
}

TEST(ChooseCheckpoint, AllRanksChooseTheSameWithItsReasons) {
  MemoryStore store;
  for (int64_t batch : {1, 2}) ASSERT_TRUE(SaveOne(store, batch).ok());
  ASSERT_TRUE(store.Put("ep0-ba2/manifest.json", {"x"}).ok());
  const int64_t keys = RunRanks(3, [&](RankExchange exchange) {
    const auto choice = ChooseCheckpoint(store, exchange);
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice->checkpoint, "ep0-ba1");
    EXPECT_THAT(choice->refused,
                testing::ElementsAre(AllOf(HasSubstr("memory://ep0-ba2/manifest.json"), HasSubstr("truncated"))));
  });
  EXPECT_EQ(keys, 0);
}

TEST(ChooseCheckpoint, WhatOneRankDoesNotSeeIsRefusedByAll) {
  MemoryStore whole, nothing;
  ASSERT_TRUE(SaveOne(whole, 1).ok());
  RunRanks(3, [&](RankExchange exchange) {
    const auto choice = ChooseCheckpoint(exchange.rank() < 2 ? whole : nothing, exchange);
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice->checkpoint, "");
    EXPECT_THAT(choice->refused, testing::ElementsAre(HasSubstr("memory://ep0-ba1/manifest.json")));
  });
}

TEST(LoadCheckpoint, CopiesIntoTheTensorsThatAreThere) {
  MemoryStore store;
  ASSERT_TRUE(SaveOne(store, 7).ok());
  StateDict target = MakeTarget();
  target.tensors[0].second = torch::zeros({4, 3}).t();  // other strides
  target.tensors[0].second.requires_grad_();
  const at::Tensor before = target.tensors[0].second;
  ASSERT_TRUE(LoadCheckpoint(store, "ep0-ba7", &target).ok());
  EXPECT_EQ(Difference(MakeState(7), target), "");
  EXPECT_TRUE(before.is_same(target.tensors[0].second));
  EXPECT_TRUE(before.requires_grad() && before.is_leaf());
  EXPECT_EQ(target.small.at("seed"), "7");
}

TEST(LoadCheckpoint, NamesEverythingThatDoesNotFitAndChangesNothing) {
  MemoryStore store;
  ASSERT_TRUE(SaveOne(store, 7).ok());
  StateDict target = MakeTarget();
  target.tensors[0].second = torch::zeros({4, 3});
  target.tensors[1].second = torch::zeros({3}, at::kFloat);
  target.tensors[2].first = "model.renamed";
  const absl::Status status = LoadCheckpoint(store, "ep0-ba7", &target);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("memory://ep0-ba7"), HasSubstr("missing in the checkpoint: model.renamed"),
                    HasSubstr("only in the checkpoint: model.conv"),
                    HasSubstr("model.fc.weight (F32[3,4] there, F32[4,3] here)"),
                    HasSubstr("model.fc.bias (BF16[3] there, F32[3] here)")));
  EXPECT_TRUE(target.small.empty());
  EXPECT_EQ(target.tensors[3].second.item<int64_t>(), 1000);
}

TEST(LoadCheckpoint, MissingAndOtherVersions) {
  MemoryStore store;
  StateDict target;
  EXPECT_EQ(LoadCheckpoint(store, "ep0-ba7", &target).code(), absl::StatusCode::kNotFound);
  const std::string body = "{\"format\":\"composer-checkpoint\",\n\"version\":2";
  ASSERT_TRUE(store.Put("ep0-ba7/manifest.json", {body, ManifestTrailer(body)}).ok());
  const absl::Status status = LoadCheckpoint(store, "ep0-ba7", &target);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("memory://ep0-ba7/manifest.json"), HasSubstr("format version 2")));
}

TEST(LoadCheckpoint, PutsATensorTogetherFromBoxesOfSeveralFiles) {
  MemoryStore store;
  Manifest manifest{.saved_at = "now", .step = {0, 1}, .world_size = 2, .attempt = "attempt-0123456789abcdef"};
  TensorEntry tensor{"w", "F32", {4, 2}, {}};
  for (int file = 0; file < 2; ++file) {  // columns 0 and 1
    std::vector<SafetensorsEntry> entries = {{"w@0," + std::to_string(file), "F32", {4, 1}}};
    const std::string header = *LayOutSafetensors(&entries);
    const std::vector<float> column = {0.F + file, 10.F + file, 20.F + file, 30.F + file};
    const absl::string_view bytes(reinterpret_cast<const char*>(column.data()), 16);
    ASSERT_TRUE(store.Put("ep0-ba1/attempt-0123456789abcdef/" + RankFileName(file), {header, bytes}).ok());
    manifest.files.push_back({RankFileName(file), entries[0].end, Xxh3(header)});
    tensor.boxes.push_back({{0, file}, {4, 1}, file, entries[0].begin, entries[0].end, {Xxh3(bytes)}});
  }
  manifest.tensors = {tensor};
  ASSERT_TRUE(store.Put("ep0-ba1/manifest.json", {*SerializeManifest(manifest)}).ok());
  ASSERT_EQ(FindNewestValid(store)->checkpoint, "ep0-ba1");
  const auto state = LoadNewStateDict(store, "ep0-ba1");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_TRUE(
      torch::equal(state->tensors[0].second, torch::tensor({{0.F, 1.F}, {10.F, 11.F}, {20.F, 21.F}, {30.F, 31.F}})));
}

// Small tensors are read in batches; those larger than the buffer are read alone. All are correct, wherever the
// boundaries fall.
TEST(LoadCheckpoint, RunsOfTensorsAreCutRight) {
  MemoryStore memory;
  StateDict state;
  for (int i = 0; i < 200; ++i) {
    const int64_t size = i < 3 ? 3'000'000 : 1 + i * 997;
    state.tensors.emplace_back("t" + std::to_string(i), torch::full({size}, i, i % 2 == 0 ? at::kFloat : at::kShort));
  }
  ASSERT_TRUE(Saver(memory, RankExchange(), {}).Save(state, {0, 1}, 0).ok());
  FaultStore counted(memory);
  const auto loaded = LoadNewStateDict(counted, "ep0-ba1");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(Difference(state, *loaded), "");
  EXPECT_LT(counted.calls(), 25);  // 94 MB: two calls for the manifest, the rest about 8 MB each
}

}  // namespace
}  // namespace composer
