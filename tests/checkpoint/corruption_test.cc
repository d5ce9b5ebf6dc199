// Corrupts every bit and every length of every file of a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/folder/verify.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"

namespace composer {
namespace {

using testing::HasSubstr;

// Batches 1 and 2, saved by two ranks and small enough to try all bits, as whole tensors or as shards.
class Corruption : public testing::TestWithParam<bool> {
 protected:
  Corruption() {
    RunRanks(2, [this](RankExchange exchange) {
      Saver saver(store_, exchange, {.run_name = "r"});
      for (int64_t batch : {1, 2}) EXPECT_TRUE(saver.Save(RankState(batch, exchange.rank()), {0, batch}, 0).ok());
    });
    keys_ = *store_.List("ep0-ba2");
    EXPECT_EQ(keys_.size(), 3u);
  }
  static StateDict State(int64_t batch) {
    StateDict state;
    state.tensors = {{"w", torch::arange(4, at::kFloat) + static_cast<double>(batch)},
                     {"n", torch::tensor(batch, at::kLong)}};
    state.small = {{"t", std::to_string(batch)}};
    return state;
  }
  // When sharded, rank 0 has columns 0 and 1 of w, and a row and a column of another tensor; rank 1 has the rest.
  static StateDict RankState(int64_t batch, int rank) {
    StateDict state = State(batch);
    if (!GetParam()) return state;
    const at::Tensor w = state.tensors[0].second.view({1, 4}), v = w.view({2, 2}).to(at::kShort);
    state.tensors.erase(state.tensors.begin());
    const int64_t column = rank == 0 ? 0 : 2;
    ShardedTensor sharded{"w", {1, 4}, at::kFloat, {{{0, column}, w.narrow(1, column, 2)}}};
    ShardedTensor boxes{"v", {2, 2}, at::kShort, {{{0, 1}, v.narrow(0, 0, 1).narrow(1, 1, 1)}}};
    if (rank == 0) boxes.shards = {{{0, 0}, v.narrow(0, 0, 1).narrow(1, 0, 1)}, {{1, 0}, v.narrow(0, 1, 1)}};
    state.sharded = {sharded, boxes};
    return state;
  }
  std::string Content(const std::string& key) { return *GetObject(store_, key, 1 << 20); }
  // Expects that the newest is rejected, with a reason that names the file, and that the older one is chosen.
  void ExpectRefused(const std::string& key, const std::string& what) {
    const CheckpointChoice choice = *FindNewestValid(store_);
    EXPECT_EQ(choice.checkpoint, "ep0-ba1") << what;
    ASSERT_EQ(choice.refused.size(), 1u) << what;
    EXPECT_THAT(choice.refused[0], HasSubstr(store_.Location(key))) << what;
  }

  MemoryStore store_;
  std::vector<std::string> keys_;
};

TEST_P(Corruption, EveryFlippedBitOfEveryFileIsFound) {
  size_t bits = 0;  // for benchmarks/damage.py
  for (const std::string& key : keys_) {
    const std::string content = Content(key);
    for (size_t bit = 0; bit < content.size() * 8; ++bit) {
      std::string flipped = content;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      ASSERT_TRUE(store_.Put(key, {flipped}).ok());
      ExpectRefused(key, absl::StrCat("bit ", bit, " of ", key));
    }
    bits += content.size() * 8;
    ASSERT_TRUE(store_.Put(key, {content}).ok());
  }
  RecordProperty("cases", static_cast<int>(bits));
  EXPECT_EQ(FindNewestValid(store_)->checkpoint, "ep0-ba2");
}

TEST_P(Corruption, EveryTruncationAndEveryAdditionIsFound) {
  size_t lengths = 0;
  for (const std::string& key : keys_) {
    const std::string content = Content(key);
    for (size_t size = 0; size < content.size(); ++size) {
      ASSERT_TRUE(store_.Put(key, {absl::string_view(content).substr(0, size)}).ok());
      ExpectRefused(key, absl::StrCat("truncated at ", size, " of ", key));
    }
    for (const char* more : {"\n", " ", "x"}) {
      ASSERT_TRUE(store_.Put(key, {content, more}).ok());
      ExpectRefused(key, absl::StrCat("one byte more of ", key));
    }
    lengths += content.size();
    ASSERT_TRUE(store_.Put(key, {content}).ok());
  }
  RecordProperty("cases", static_cast<int>(lengths));
}

TEST_P(Corruption, AMissingDataFileIsFoundAndWithoutAManifestThereIsNoCheckpoint) {
  for (const std::string& key : keys_) {
    const std::string content = Content(key);
    ASSERT_TRUE(store_.Delete(key).ok());
    if (absl::EndsWith(key, "manifest.json")) {
      const CheckpointChoice choice = *FindNewestValid(store_);
      EXPECT_EQ(choice.checkpoint, "ep0-ba1");
      EXPECT_TRUE(choice.refused.empty());
    } else {
      ExpectRefused(key, "missing");
    }
    ASSERT_TRUE(store_.Put(key, {content}).ok());
  }
}

TEST_P(Corruption, FilesOfAnotherCheckpointInItsPlaceAreFound) {
  const std::vector<std::string> older = *store_.List("ep0-ba1");
  for (size_t i = 0; i < keys_.size(); ++i) {
    const std::string content = Content(keys_[i]);
    ASSERT_TRUE(store_.Put(keys_[i], {Content(older[i])}).ok());
    const CheckpointChoice choice = *FindNewestValid(store_);
    EXPECT_EQ(choice.checkpoint, "ep0-ba1") << keys_[i];
    ASSERT_TRUE(store_.Put(keys_[i], {content}).ok());
  }
}

TEST_P(Corruption, ReasonsSayWhatIsWrong) {
  std::string data_key;
  for (const std::string& key : keys_) {
    if (absl::EndsWith(key, "rank-00000.safetensors")) data_key = key;
  }
  const std::string content = Content(data_key);
  ASSERT_TRUE(store_.Put(data_key, {content.substr(0, 100)}).ok());
  EXPECT_THAT(FindNewestValid(store_)->refused[0],
              HasSubstr(absl::StrCat(": truncated at 100 of ", content.size(), " bytes")));
  std::string flipped = content;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  ASSERT_TRUE(store_.Put(data_key, {flipped}).ok());
  EXPECT_THAT(FindNewestValid(store_)->refused[0],
              HasSubstr(GetParam() ? "checksum mismatch of tensor v" : "checksum mismatch of tensor w"));
  flipped = content;
  flipped[20] = static_cast<char>(flipped[20] ^ 1);
  ASSERT_TRUE(store_.Put(data_key, {flipped}).ok());
  EXPECT_THAT(FindNewestValid(store_)->refused[0], HasSubstr("checksum mismatch of its header"));
  // A load of it copies nothing that is invalid, either.
  ASSERT_TRUE(store_.Put(data_key, {content.substr(0, content.size() - 1)}).ok());
  StateDict target = RankState(9, 0);
  EXPECT_FALSE(LoadCheckpoint(store_, "ep0-ba2", &target).ok());
}

TEST_P(Corruption, ABoxUnderAnotherNameInTheFileIsRefused) {
  if (!GetParam()) return;
  Manifest manifest = *ReadManifest(store_, "ep0-ba2");
  std::vector<Box>& boxes = manifest.tensors[2].boxes;  // two boxes of v of one shape, which swap places
  ASSERT_EQ(boxes[0].shape, boxes[2].shape);
  std::swap(boxes[0].offset, boxes[2].offset);
  ASSERT_TRUE(store_.Put("ep0-ba2/manifest.json", {*SerializeManifest(manifest)}).ok());
  EXPECT_THAT(FindNewestValid(store_)->refused,
              testing::ElementsAre(HasSubstr("its tensors are not those of the manifest")));
}

TEST_P(Corruption, DataThatTheManifestDoesNotCoverIsRefused) {
  Manifest manifest = *ReadManifest(store_, "ep0-ba2");
  manifest.tensors.pop_back();
  ASSERT_TRUE(store_.Put("ep0-ba2/manifest.json", {*SerializeManifest(manifest)}).ok());
  EXPECT_THAT(FindNewestValid(store_)->refused,
              testing::ElementsAre(HasSubstr("its tensors are not those of the manifest")));
}

TEST_P(Corruption, AllProblemsOfACheckpointAreFoundAtOnce) {
  for (const std::string& key : keys_) {
    if (absl::EndsWith(key, "manifest.json")) continue;
    std::string content = Content(key);
    content.back() = static_cast<char>(content.back() ^ 0x80);
    ASSERT_TRUE(store_.Put(key, {content}).ok());
  }
  EXPECT_EQ(VerifyCheckpoint(store_, "ep0-ba2").problems.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(WholeAndSharded, Corruption, testing::Bool());

// A box of three chunks: a flipped bit at the ends of each chunk is found, and does not affect a load that does not
// need the chunk.
TEST(CorruptionOfLargeBoxes, EachChunkHasItsChecksum) {
  MemoryStore store;
  StateDict state;
  const int64_t values = 2 * kChunkBytes + 1000;
  state.tensors = {{"w", torch::arange(values, at::kByte)}};
  ASSERT_TRUE(Saver(store, RankExchange(), {}).Save(state, {0, 1}, 0).ok());
  const Box box = ReadManifest(store, "ep0-ba1")->tensors[0].boxes[0];
  ASSERT_EQ(box.xxh3.size(), 3u);
  const std::string key = store.List("ep0-ba1")->at(0), content = *GetObject(store, key, 1 << 24);
  for (const int64_t place :
       {int64_t{0}, kChunkBytes - 1, kChunkBytes, 2 * kChunkBytes - 1, 2 * kChunkBytes, values - 1}) {
    std::string flipped = content;
    flipped[static_cast<size_t>(box.begin + place)] ^= 2;
    ASSERT_TRUE(store.Put(key, {flipped}).ok());
    EXPECT_THAT(FindNewestValid(store)->refused, testing::ElementsAre(HasSubstr("checksum mismatch of tensor w")));
    StateDict part;
    part.sharded = {{"w", {values}, at::kByte, {{{kChunkBytes + 5}, torch::zeros({10}, at::kByte)}}}};
    const bool reads_it = place >= kChunkBytes && place < 2 * kChunkBytes;
    EXPECT_EQ(LoadCheckpoint(store, "ep0-ba1", &part).ok(), !reads_it) << place;
  }
}

}  // namespace
}  // namespace composer
