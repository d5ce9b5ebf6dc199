// SPDX-License-Identifier: Apache-2.0
#include "data/mds/cached_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/file.h"
#include "data/mds/fetch.h"
#include "data/mds/writer.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "tests/support/fault_store.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kSamples = 300;

std::string TextOf(int64_t sample) {
  return std::string(static_cast<size_t>(sample * 7 % 90), static_cast<char>('a' + sample % 26));
}

// Writes samples of up to 100 bytes, in shards of up to 4,000.
std::shared_ptr<MemoryStore> StoreWithSamples() {
  auto store = std::make_shared<MemoryStore>();
  MdsWriterOptions options;
  options.columns = {{"id", "int"}, {"text", "str"}};
  options.size_limit = 4000;
  const auto writer = MdsWriter::Create(store, options).value();
  for (int64_t i = 0; i < kSamples; ++i) {
    const std::string text = TextOf(i);
    EXPECT_TRUE(writer->Write({absl::string_view(reinterpret_cast<const char*>(&i), sizeof i), text}).ok());
  }
  EXPECT_TRUE(writer->Finish().ok());
  return store;
}

// Counts what is read of shards, and flips a bit of it.
class MeteredStore final : public FaultStore {
 public:
  explicit MeteredStore(std::shared_ptr<MemoryStore> memory) : FaultStore(*memory), memory_(std::move(memory)) {
    OnlyFor("shard");
  }

  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override {
    const absl::Status read = FaultStore::Read(key, offset, into);
    if (!absl::StrContains(key, "shard")) return read;
    bytes += static_cast<int64_t>(into.size());
    if (flip_at >= offset && flip_at < offset + static_cast<int64_t>(into.size()) && flips-- > 0)
      into[static_cast<size_t>(flip_at - offset)] ^= 1;
    return read;
  }
  MemoryStore& memory() { return *memory_; }

  std::atomic<int64_t> bytes = 0;  // read of shards
  int64_t flip_at = -1;            // the place in shards of which a bit is answered wrongly
  int flips = 0;                   // so many times

 private:
  const std::shared_ptr<MemoryStore> memory_;
};

class CachedSlicesTest : public testing::Test {
 protected:
  std::unique_ptr<MdsReader> Open(int64_t slice_bytes = 700, std::optional<int64_t> limit = std::nullopt) {
    return OpenWith(clock_, slice_bytes, limit);
  }
  std::unique_ptr<MdsReader> OpenWith(Clock& clock, int64_t slice_bytes, std::optional<int64_t> limit) {
    const auto cache = ShardCache::Open({.folder = folder_.path(), .limit = limit}, clock).value();
    MdsIndex index = FetchMdsIndex(*store_, "").value();
    EXPECT_TRUE(CheckSlices(index).ok());
    return MdsReader::Create(std::move(index), CachedSlices(cache, store_, ""), 4, slice_bytes).value();
  }
  static bool IsRight(int64_t id, const MdsSample& sample) {
    return sample.columns[0] == absl::string_view(reinterpret_cast<const char*>(&id), sizeof id) &&
           sample.columns[1] == TextOf(id);
  }
  static absl::Status ReadAll(MdsReader& reader) {
    MdsSample sample;
    for (int64_t i = 0; i < reader.size(); ++i) {
      if (const absl::Status read = reader.Read(i, sample); !read.ok()) return read;
      if (!IsRight(i, sample)) return absl::InternalError(absl::StrCat("sample ", i, " is another one"));
    }
    return absl::OkStatus();
  }
  std::vector<std::string> Stored(const std::string& part = ".shard") {
    std::vector<std::string> paths;
    const std::vector<std::string> names = ListDir(folder_.Path("composer-shards")).value();
    for (const std::string& name : names) {
      if (absl::StrContains(name, part)) paths.push_back(folder_.Path("composer-shards/" + name));
    }
    return paths;
  }
  int64_t SizeOfShards() {
    int64_t bytes = 0;
    const MdsIndex index = FetchMdsIndex(*store_, "").value();
    for (const MdsShardInfo& info : index.shards) bytes += info.raw.bytes;
    return bytes;
  }

  TempDir folder_;
  ManualClock clock_;
  std::shared_ptr<MeteredStore> store_ = std::make_shared<MeteredStore>(StoreWithSamples());
};

TEST_F(CachedSlicesTest, SamplesAreTheSameForAnySizeAndFailuresAreRetried) {
  for (const int64_t slice_bytes : {1, 50, 700, 1'000'000}) {
    store_->FailCalls(0, 4, absl::UnavailableError("503"));
    EXPECT_EQ(ReadAll(*Open(slice_bytes)), absl::OkStatus()) << slice_bytes;
  }
  for (const char* const set : {"shards", "every"}) {  // as the package writes them
    const std::string folder = JoinPath("tests/golden/mds", set);
    const auto local = MdsReader::Create(ReadMdsIndex(folder).value(), LocalShards(folder)).value();
    const auto cache = ShardCache::Open({.folder = folder_.path()}, clock_).value();
    const auto store = std::make_shared<LocalStore>(AbsolutePath(folder));
    const auto remote = MdsReader::Create(FetchMdsIndex(*store, "").value(), CachedSlices(cache, store, ""), 2, 200);
    MdsSample ours, theirs;
    for (int64_t i = 0; i < local->size(); ++i) {
      ASSERT_EQ((*remote)->Read(i, ours), absl::OkStatus());
      ASSERT_TRUE(local->Read(i, theirs).ok());
      ASSERT_EQ(ours.columns, theirs.columns);
    }
  }
}

TEST_F(CachedSlicesTest, OnlyWhatIsReadIsFetchedAndOnlyOnce) {
  const auto reader = Open();
  MdsSample sample;
  ASSERT_TRUE(reader->Read(150, sample).ok());
  const int64_t one = store_->bytes;
  EXPECT_LT(one, 4 * 60 + 1500) << "the head of a shard, and a slice";
  ASSERT_TRUE(reader->Read(151, sample).ok());
  EXPECT_EQ(store_->bytes, one);
  EXPECT_EQ(ReadAll(*Open()), absl::OkStatus());
  const int64_t all = store_->bytes;
  EXPECT_LE(all, SizeOfShards());
  EXPECT_EQ(ReadAll(*Open()), absl::OkStatus());
  EXPECT_EQ(store_->bytes, all);
}

TEST_F(CachedSlicesTest, OneOfManyFetches) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {  // each with its own cache, as processes would
      good += ReadAll(*OpenWith(RealClock::Get(), 700, std::nullopt)).ok() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_LE(store_->bytes, SizeOfShards());
}

TEST_F(CachedSlicesTest, WhatIsDamagedInTheCacheIsFetchedAgain) {
  ASSERT_EQ(ReadAll(*Open()), absl::OkStatus());
  const std::vector<std::string> paths = Stored();
  ASSERT_GT(paths.size(), 20);
  const std::string other = ReadFile(paths[0]).value();
  for (size_t i = 0; i < paths.size(); ++i) {
    std::string content = ReadFile(paths[i]).value();
    switch (i % 3) {
      case 0:
        content[content.size() / 2] ^= 1;  // a value, whose structure stays
        break;
      case 1:
        content.pop_back();
        break;
      default:
        content = other.substr(0, content.size());
        content.resize(ReadFile(paths[i]).value().size(), 'x');
    }
    ASSERT_TRUE(AtomicWriteFile(paths[i], content).ok());
  }
  const int64_t before = store_->bytes;
  EXPECT_EQ(ReadAll(*Open()), absl::OkStatus());
  EXPECT_GT(store_->bytes, before);
}

TEST_F(CachedSlicesTest, WrongOffsetsThatAreInOrderAreFetchedAgain) {
  store_->flip_at = 4 * 3;
  store_->flips = 1;
  EXPECT_EQ(ReadAll(*Open()), absl::OkStatus());
  EXPECT_LE(store_->flips, 0) << "the bit was flipped";
}

TEST_F(CachedSlicesTest, StoresThatLieOrFailForGoodAreNamed) {
  MdsSample sample;
  store_->flip_at = 4 * 3;
  store_->flips = 1'000'000;
  EXPECT_THAT(std::string(Open()->Read(0, sample).message()),
              AllOf(HasSubstr("after 5 tries"), HasSubstr("memory://shard.00000.mds"), HasSubstr("sample 1:")));
  store_->flip_at = 0;
  for (const std::string& path : Stored()) ASSERT_TRUE(RemoveFile(path).ok());
  EXPECT_THAT(std::string(Open()->Read(0, sample).message()), HasSubstr("as many samples as the index says"));
  store_->flips = 0;
  store_->FailCalls(0, 1'000'000, absl::UnavailableError("503"));
  EXPECT_THAT(std::string(Open()->Read(0, sample).message()), AllOf(HasSubstr("after 5 tries"), HasSubstr("503")));
  store_->FailCalls(0, 0, absl::OkStatus());
  ASSERT_TRUE(store_->memory().Put("shard.00000.mds", {"short"}).ok());
  EXPECT_THAT(std::string(Open()->Read(0, sample).message()), HasSubstr("it has 5 bytes, and the index says"));
  ASSERT_TRUE(store_->Delete("shard.00000.mds").ok());
  EXPECT_TRUE(absl::IsNotFound(Open()->Read(0, sample)));
}

TEST_F(CachedSlicesTest, WhatCannotBeFetchedInPartIsRefused) {
  const auto refusal = [](const std::string& set) {
    return std::string(CheckSlices(ReadMdsIndex(JoinPath("tests/golden/mds", set)).value()).message());
  };
  EXPECT_THAT(refusal("zstd"), HasSubstr("shard.00000.mds is compressed with zstd"));
  EXPECT_THAT(refusal("rows-tsv"), HasSubstr("is of the format tsv; only MDS shards"));
}

// A child that reads samples without pause; it is killed at some time.
[[noreturn]] void ReadForever(const std::string& folder, const std::shared_ptr<MeteredStore>& store, unsigned seed) {
  const auto cache = ShardCache::Open({.folder = folder, .limit = 12'000}).value();
  const auto reader =
      MdsReader::Create(FetchMdsIndex(*store, "").value(), CachedSlices(cache, store, ""), 1, 500).value();
  MdsSample sample;
  for (std::mt19937 random(seed);;) {
    const int64_t id = random() % kSamples;
    if (!reader->Read(id, sample).ok()) _exit(1);
    int64_t read = 0;
    std::copy_n(sample.columns[0].data(), sizeof read, reinterpret_cast<char*>(&read));
    if (read != id || sample.columns[1] != TextOf(id)) _exit(2);
  }
}

TEST_F(CachedSlicesTest, KilledProcessesLeaveNothingToCleanUp) {
  KillPairs(6, [&](unsigned child) { ReadForever(folder_.path(), store_, child); });
  EXPECT_EQ(ReadAll(*Open(500, 12'000)), absl::OkStatus());
  int64_t stored = 0;
  for (const std::string& path : Stored()) stored += static_cast<int64_t>(ReadFile(path).value().size());
  EXPECT_LE(stored, 12'000);
}

}  // namespace
}  // namespace composer
