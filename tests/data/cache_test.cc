// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/file.h"
#include "data/cache/shard_cache.h"
#include "data/mds/cached_shards.h"
#include "data/mds/fetch.h"
#include "data/mds/inspect.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "tests/support/fault_store.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Files whose content is their name, repeated; counts what is fetched.
class Source {
 public:
  static std::string ContentOf(const std::string& name, int64_t bytes) {
    std::string content;
    while (static_cast<int64_t>(content.size()) < bytes) absl::StrAppend(&content, name, "|");
    content.resize(static_cast<size_t>(bytes));
    return content;
  }
  CachedItem Item(const std::string& name, int64_t bytes = 1000) {
    CachedItem item;
    item.name = name;
    item.bytes = bytes;
    item.check = [=](absl::string_view content) {
      return content == ContentOf(name, bytes) ? absl::OkStatus() : absl::DataLossError("the hash is another one");
    };
    item.fetch = [=, this]() -> absl::StatusOr<std::string> {
      const int call = fetched++;
      if (call < failing) return failure;
      return call < failing + lying ? std::string(static_cast<size_t>(bytes), '?') : ContentOf(name, bytes);
    };
    return item;
  }

  std::atomic<int> fetched = 0;
  int failing = 0;  // of the next calls
  int lying = 0;    // of those behind
  absl::Status failure = absl::UnavailableError("s3://bucket/x does not answer");
};

class ShardCacheTest : public testing::Test {
 protected:
  std::shared_ptr<ShardCache> OpenCache(std::optional<int64_t> limit = std::nullopt) {
    return ShardCache::Open({.folder = folder_.path(), .limit = limit}, clock_).value();
  }
  std::string File(const std::string& name) { return folder_.Path(absl::StrCat("composer-shards/", name)); }
  int64_t StoredBytes() {
    int64_t bytes = 0;
    const std::vector<std::string> names = ListDir(folder_.Path("composer-shards")).value();
    for (const std::string& name : names) {
      if (!absl::EndsWith(name, ".lock")) bytes += static_cast<int64_t>(ReadFile(File(name)).value().size());
    }
    return bytes;
  }

  TempDir folder_;
  ManualClock clock_;
  Source source_;
};

TEST_F(ShardCacheTest, OneOfManyFetches) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      // Each thread has its own cache, as processes would.
      const auto cache = ShardCache::Open({.folder = folder_.path()}).value();
      for (const char* const name : {"a", "b", "c"}) {
        const auto file = cache->Get(source_.Item(name));
        good += file.ok() && (*file)->bytes() == Source::ContentOf(name, 1000) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 24);
  EXPECT_EQ(source_.fetched, 3);
}

TEST_F(ShardCacheTest, DamagedTruncatedAndSwappedFilesAreFetchedAgain) {
  for (const std::string& damage : {std::string(1000, 'x'), std::string("short"), Source::ContentOf("other", 1000)}) {
    ASSERT_TRUE(OpenCache()->Get(source_.Item("a")).ok());
    ASSERT_TRUE(AtomicWriteFile(File("a.shard"), damage).ok());
    const int before = source_.fetched;
    const auto file = OpenCache()->Get(source_.Item("a"));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->bytes(), Source::ContentOf("a", 1000));
    EXPECT_EQ(source_.fetched, before + 1);
  }
}

TEST_F(ShardCacheTest, RetriesAreBounded) {
  source_.failing = 2;
  source_.lying = 2;
  EXPECT_TRUE(OpenCache()->Get(source_.Item("a")).ok());
  EXPECT_EQ(source_.fetched, 5);
  source_.fetched = 0;
  source_.failing = 100;
  EXPECT_THAT(std::string(OpenCache()->Get(source_.Item("b")).status().message()),
              testing::AllOf(HasSubstr("after 5 tries"), HasSubstr("s3://bucket/x does not answer")));
  EXPECT_EQ(source_.fetched, 5);
  source_.fetched = 0;
  source_.failing = 0;
  source_.lying = 100;
  EXPECT_TRUE(absl::IsDataLoss(OpenCache()->Get(source_.Item("b")).status()));
  source_.fetched = 0;
  source_.failing = 100;
  source_.failure = absl::PermissionDeniedError("s3://bucket/x: 403");
  EXPECT_TRUE(absl::IsPermissionDenied(OpenCache()->Get(source_.Item("b")).status()));
  EXPECT_EQ(source_.fetched, 1);
  EXPECT_EQ(StoredBytes(), 1000);  // nothing is left of what failed
}

TEST_F(ShardCacheTest, EvictsWhatIsOldestAndItsOwn) {
  ASSERT_TRUE(AtomicWriteFile(folder_.Path("mine.txt"), std::string(5000, 'm')).ok());
  const auto cache = OpenCache(3500);
  ASSERT_TRUE(cache->Get(source_.Item("a")).ok());
  ASSERT_TRUE(AtomicWriteFile(File("mine.bin"), std::string(10, 'm')).ok());  // no name of the cache
  for (const char* const name : {"b", "c", "a", "d"}) ASSERT_TRUE(cache->Get(source_.Item(name)).ok());
  EXPECT_FALSE(PathExists(File("b.shard")));  // a was used again
  for (const char* const name : {"a.shard", "c.shard", "d.shard", "mine.bin"}) EXPECT_TRUE(PathExists(File(name)));
  EXPECT_TRUE(PathExists(folder_.Path("mine.txt")));
}

// A listing that sees neither the old nor the new name of a file would find room that is not there.
TEST_F(ShardCacheTest, NothingAppearsWhileRoomIsMade) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const auto cache = ShardCache::Open({.folder = folder_.path(), .limit = 8000}).value();
      for (int i = 0; i < 60; ++i) good += cache->Get(source_.Item(absl::StrCat("t", t, "i", i))).ok() ? 1 : 0;
    });
  }
  const std::string place = folder_.Path("composer-shards");
  while (good == 0) std::this_thread::yield();
  for (int look = 0; look < 30; ++look) {
    const auto room = FileLock::Wait(File("room.lock"), FileLock::Mode::kExclusive, absl::Minutes(1), RealClock::Get());
    ASSERT_TRUE(room.ok()) << room.status();
    const std::vector<std::string> before = ListDir(place).value();
    const absl::Time end = absl::Now() + absl::Milliseconds(5);
    do {
      const std::vector<std::string> now = ListDir(place).value();
      for (const std::string& name : now) {
        if (!absl::EndsWith(name, ".lock")) EXPECT_THAT(before, testing::Contains(name));
      }
    } while (absl::Now() < end);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 180);
  EXPECT_LE(StoredBytes(), 8000);
}

TEST_F(ShardCacheTest, WhatIsInUseStays) {
  const auto cache = OpenCache(2500);
  const auto a = cache->Get(source_.Item("a")).value();
  auto b = cache->Get(source_.Item("b")).value();
  EXPECT_THAT(std::string(OpenCache(2500)->Get(source_.Item("c")).status().message()),
              HasSubstr("no room for 1000 bytes: 2000 bytes are in use, and cache_limit is 2500"));
  b.reset();
  EXPECT_TRUE(OpenCache(2500)->Get(source_.Item("c")).ok());
  EXPECT_TRUE(PathExists(File("a.shard")));
  EXPECT_FALSE(PathExists(File("b.shard")));
  EXPECT_EQ(a->bytes(), Source::ContentOf("a", 1000));
  EXPECT_THAT(std::string(cache->Get(source_.Item("huge", 3000)).status().message()), HasSubstr("cache_limit is 2500"));
}

TEST_F(ShardCacheTest, LeftoversOfTheKilledGoFirst) {
  ASSERT_TRUE(OpenCache(3500)->Get(source_.Item("a")).ok());
  ASSERT_TRUE(AtomicWriteFile(File("dead.part"), std::string(2000, 'd')).ok());
  ASSERT_TRUE(OpenCache(3500)->Get(source_.Item("b")).ok());
  EXPECT_TRUE(PathExists(File("a.shard")));
  EXPECT_FALSE(PathExists(File("dead.part")));
  ASSERT_TRUE(AtomicWriteFile(File("c.part"), std::string(5, 'd')).ok());
  ASSERT_TRUE(OpenCache(3500)->Get(source_.Item("c")).ok());
  EXPECT_FALSE(PathExists(File("c.part")));
}

TEST_F(ShardCacheTest, AnotherProcessThatNeverEndsIsNamed) {
  ASSERT_TRUE(OpenCache()->Get(source_.Item("a")).ok());
  const auto lock = FileLock::Try(File("a.lock"), FileLock::Mode::kExclusive);
  ASSERT_TRUE(lock.ok());
  const absl::Status status = OpenCache()->Get(source_.Item("a")).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("has held"));
}

TEST_F(ShardCacheTest, AStoreThatHangsIsNamed) {
  absl::Notification end;
  auto ended = std::make_shared<absl::Notification>();
  CachedItem item = source_.Item("a");
  item.place = "s3://bucket/data/shard.00000.mds";
  item.fetch = [&end, ended]() -> absl::StatusOr<std::string> {
    end.WaitForNotification();
    ended->Notify();
    return "";
  };
  const auto cache =
      ShardCache::Open({.folder = folder_.path(), .fetch_timeout = absl::Milliseconds(20)}, clock_).value();
  const absl::Status status = cache->Get(item).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_EQ(status.message(), "s3://bucket/data/shard.00000.mds has not answered for 20ms");
  end.Notify();
  ended->WaitForNotification();
  EXPECT_TRUE(OpenCache()->Get(source_.Item("a")).ok()) << "its lock was freed";  // with the usual time
}

TEST(ShardsAhead, FetchesEachShardOnceAndForgetsWhatTheCacheCannotHold) {
  absl::Mutex mutex;
  std::vector<size_t> fetched;
  absl::Notification first, go;
  ShardsAhead ahead(
      [&](size_t shard) {
        if (!first.HasBeenNotified()) first.Notify();
        go.WaitForNotification();
        const absl::MutexLock lock(&mutex);
        fetched.push_back(shard);
      },
      3);
  ahead.Want(0);
  first.WaitForNotification();
  for (const size_t shard : {0, 1, 0, 2, 1, 3, 4, 5}) ahead.Want(shard);  // three wait; 4 and 5 are forgotten
  go.Notify();
  const auto all = [&] { return fetched.size() == 4; };
  const absl::MutexLock lock(&mutex);
  mutex.Await(absl::Condition(&all));
  EXPECT_THAT(fetched, ElementsAre(0, 1, 2, 3));
}

TEST_F(ShardCacheTest, RefusesBadOptionsAndNames) {
  EXPECT_THAT(std::string(ShardCache::Open({.folder = "/x", .limit = 0}).status().message()), HasSubstr("cache_limit"));
  EXPECT_FALSE(ShardCache::Open({}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(OpenCache()->Get(source_.Item("../a")).status()));
}

// A child that fetches, evicts and reads without pause; it is killed at some time.
[[noreturn]] void ReadForever(const std::string& folder, unsigned seed) {
  const auto cache = ShardCache::Open({.folder = folder, .limit = 400'000}).value();
  Source source;
  for (std::mt19937 random(seed);;) {
    const std::string name = absl::StrCat("shard", random() % 8);
    const auto file = cache->Get(source.Item(name, 100'000));
    if (!file.ok() || (*file)->bytes() != Source::ContentOf(name, 100'000)) _exit(1);
  }
}

TEST_F(ShardCacheTest, KilledProcessesLeaveNothingToCleanUp) {
  KillPairs(5, [&](unsigned child) { ReadForever(folder_.path(), child); });
  const auto cache = ShardCache::Open({.folder = folder_.path(), .limit = 400'000}, clock_).value();
  for (int i = 0; i < 8; ++i) {
    const std::string name = absl::StrCat("shard", i);
    const auto file = cache->Get(source_.Item(name, 100'000));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->bytes(), Source::ContentOf(name, 100'000));
  }
  EXPECT_LE(StoredBytes(), 400'000);
}

// Copies a golden data set into a store.
std::shared_ptr<MemoryStore> StoreWith(const std::string& set) {
  auto store = std::make_shared<MemoryStore>();
  const std::string folder = JoinPath("tests/golden/mds", set);
  const std::vector<std::string> names = ListDir(folder).value();
  for (const std::string& name : names) {
    const std::string bytes = ReadFile(JoinPath(folder, name)).value();
    EXPECT_TRUE(store->Put(absl::StrCat("data/train/", name), {bytes}).ok());
  }
  return store;
}

TEST_F(ShardCacheTest, ReadersOfRemoteDataGetTheSameSamples) {
  for (const char* const set : {"shards", "zstd", "gz", "every", "rows-csv", "rows-tsv"}) {
    const auto store = StoreWith(set);
    FaultStore faults(*store);
    const std::shared_ptr<ObjectStore> shared(std::shared_ptr<void>(), &faults);
    const std::string folder = JoinPath("tests/golden/mds", set);
    const auto local = MdsReader::Create(ReadMdsIndex(folder).value(), LocalShards(folder)).value();
    faults.OnlyFor("shard");
    faults.FailCalls(0, 3, absl::UnavailableError("503"));
    const auto remote =
        MdsReader::Create(FetchMdsIndex(faults, "data/train").value(), CachedShards(OpenCache(), shared, "data/train"))
            .value();
    MdsSample ours, theirs;
    for (int64_t i = 0; i < local->size(); ++i) {
      const absl::Status read = remote->Read(i, ours);
      ASSERT_TRUE(read.ok()) << read;
      ASSERT_TRUE(local->Read(i, theirs).ok());
      ASSERT_EQ(ours.columns, theirs.columns);
    }
  }
}

TEST_F(ShardCacheTest, AStoreThatLiesIsNamed) {
  for (const char* const set : {"shards", "zstd"}) {
    const auto store = StoreWith(set);
    const MdsIndex index = FetchMdsIndex(*store, "data/train").value();
    const std::string key = absl::StrCat("data/train/", index.shards[0].stored().name);
    std::string bytes = GetObject(*store, key, 1 << 20).value();
    bytes[bytes.size() / 2] ^= 1;
    ASSERT_TRUE(store->Put(key, {bytes}).ok());
    const auto reader = MdsReader::Create(index, CachedShards(OpenCache(), store, "data/train")).value();
    MdsSample sample;
    EXPECT_THAT(std::string(reader->Read(0, sample).message()),
                testing::AllOf(HasSubstr("after 5 tries"), HasSubstr("memory://"), HasSubstr("and the index says")));
    bytes.pop_back();
    ASSERT_TRUE(store->Put(key, {bytes}).ok());
    EXPECT_THAT(std::string(reader->Read(0, sample).message()), HasSubstr("bytes, and the index says"));
    ASSERT_TRUE(store->Delete(key).ok());
    EXPECT_TRUE(absl::IsNotFound(reader->Read(0, sample)));
  }
}

TEST(MdsTools, VerifyFindsEveryDamagedShard) {
  for (const char* const set : {"shards", "zstd", "every", "rows-json", "rows-xsv"}) {
    const auto store = StoreWith(set);
    const MdsIndex index = FetchMdsIndex(*store, "data/train").value();
    size_t reports = 0;
    const MdsVerification good = VerifyMds(*store, "data/train", index, 3, [&](size_t) { ++reports; });
    EXPECT_TRUE(good.problems.empty()) << good.problems[0].what;
    EXPECT_EQ(reports, index.shards.size());
    EXPECT_GT(good.samples, 0);
    for (const MdsShardInfo& info : index.shards) {
      const std::string key = absl::StrCat("data/train/", info.stored().name);
      std::string bytes = GetObject(*store, key, 1 << 20).value();
      bytes.back() = static_cast<char>(bytes.back() ^ 4);
      ASSERT_TRUE(store->Put(key, {bytes}).ok());
    }
    const MdsVerification bad = VerifyMds(*store, "data/train", index, 2);
    EXPECT_EQ(bad.problems.size(), index.shards.size());
    EXPECT_EQ(bad.samples, 0);
    EXPECT_THAT(bad.problems[0].what, HasSubstr("and the index says"));
  }
}

TEST(MdsTools, VerifyChecksValuesWithoutHashes) {
  const auto store = StoreWith("tiny");
  const MdsIndex index = FetchMdsIndex(*store, "data/train").value();
  const std::string key = absl::StrCat("data/train/", index.shards[1].raw.name);
  std::string bytes = GetObject(*store, key, 1 << 20).value();
  bytes.back() = '\xff';
  ASSERT_TRUE(store->Put(key, {bytes}).ok());
  const MdsVerification found = VerifyMds(*store, "data/train", index, 1);
  ASSERT_EQ(found.problems.size(), 1);
  EXPECT_EQ(found.problems[0].what, "sample 0: column text: a value of encoding str is not UTF-8");
}

TEST(MdsTools, DescribesDataSetsAndValues) {
  const auto reader =
      MdsReader::Create(ReadMdsIndex("tests/golden/mds/every").value(), LocalShards("tests/golden/mds/every")).value();
  EXPECT_THAT(DescribeMds(reader->index()),
              testing::AllOf(HasSubstr("samples:     5\n"), HasSubstr("column:      any (ndarray)\n")));
  MdsSample sample;
  ASSERT_TRUE(reader->Read(1, sample).ok());
  std::map<std::string, std::string> texts;
  for (size_t i = 0; i < sample.columns.size(); ++i)
    texts[reader->columns()[i].name] = DescribeValue(reader->columns()[i].encoding, sample.columns[i]);
  EXPECT_EQ(texts["float16"], "7");
  EXPECT_EQ(texts["float64"], "7");
  EXPECT_EQ(texts["int"], "-1000000000000");
  EXPECT_EQ(texts["si"], "-1000000000000000000000000000001");
  EXPECT_EQ(texts["any"], "uint16[2, 2]");
  EXPECT_EQ(texts["fixed"], "int16[2, 3]");
  EXPECT_EQ(texts["pil"], "5x3 RGB");
  EXPECT_EQ(texts["pils"], "1 elements");
  EXPECT_THAT(texts["text"], HasSubstr("Äpfel"));
}

TEST(MdsTools, MergesFoldersInTheOrderOfTheirNames) {
  const auto store = std::make_shared<MemoryStore>();
  EXPECT_TRUE(absl::IsNotFound(MergeMds(*store, "all").status()));
  for (const char* const part : {"part-10", "part-02"}) {
    const std::vector<std::string> names = ListDir("tests/golden/mds/shards").value();
    for (const std::string& name : names) {
      const std::string bytes = ReadFile(JoinPath("tests/golden/mds/shards", name)).value();
      ASSERT_TRUE(store->Put(absl::StrCat("all/", part, "/", name), {bytes}).ok());
    }
  }
  EXPECT_EQ(MergeMds(*store, "all").value(), 4);
  const MdsIndex merged = FetchMdsIndex(*store, "all").value();
  EXPECT_EQ(merged.shards[0].raw.name, "part-02/shard.00000.mds");
  EXPECT_EQ(merged.shards[3].raw.name, "part-10/shard.00001.mds");
  EXPECT_TRUE(VerifyMds(*store, "all", merged, 1).problems.empty());
  EXPECT_TRUE(absl::IsAlreadyExists(MergeMds(*store, "all").status()));
}

}  // namespace
}  // namespace composer
