// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/cleanup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

TEST(DeleteInterrupted, TakesAttemptsThatNoManifestNamesAndNothingElse) {
  MemoryStore store;
  ASSERT_TRUE(SaveOne(store, 1).ok());
  ASSERT_TRUE(SaveOne(store, 2).ok());
  ASSERT_TRUE(store.Put("ep0-ba2/manifest.json", {"damaged"}).ok());
  ASSERT_TRUE(store.Put("ep0-ba1/notes.txt", {"mine"}).ok());
  ASSERT_TRUE(store.Put("other/file", {"mine"}).ok());
  const std::vector<std::string> before = *store.List("");
  for (const char* orphan : {"ep0-ba1/attempt-0000000000000000/rank-00000.safetensors",
                             "ep0-ba3/attempt-0000000000000000/rank-00001.safetensors"}) {
    ASSERT_TRUE(store.Put(orphan, {"x"}).ok());
  }
  ASSERT_TRUE(DeleteInterrupted(store).ok());
  EXPECT_EQ(*store.List(""), before);
}

TEST(DeleteInterrupted, TakesWhatACutOffWriteLeftInAFolder) {
  TempDir dir;
  LocalStore store(dir.path());
  ASSERT_TRUE(SaveOne(store, 1).ok());
  const std::vector<std::string> before = *store.List("");
  ASSERT_TRUE(MakeDirs(dir.Path("ep0-ba2/attempt-0000000000000000")).ok());
  ASSERT_TRUE(MakeDirs(dir.Path("ep0-ba3")).ok());
  for (const char* remains : {".put-1-latest", "ep0-ba1/.put-2-manifest.json", "ep0-ba4/.put-3-x"}) {
    ASSERT_TRUE(MakeDirs(DirName(dir.Path(remains))).ok());
    ASSERT_TRUE(AtomicWriteFile(dir.Path(remains), "x").ok());
  }
  ASSERT_TRUE(AtomicWriteFile(dir.Path(".gitignore"), "x").ok());
  ASSERT_TRUE(DeleteInterrupted(store).ok());
  EXPECT_EQ(*store.List(""), before);
  EXPECT_THAT(*ListDir(dir.path()), testing::ElementsAre(".gitignore", "ep0-ba1", "latest"));
}

TEST(DeleteOld, NeverTheOneJustSaved) {
  MemoryStore store;
  for (int64_t batch : {1, 2, 3}) ASSERT_TRUE(SaveOne(store, batch).ok());
  ASSERT_TRUE(DeleteOld(store, {0, 2}, 1).ok());
  EXPECT_EQ(*CommittedCheckpoints(store), (std::vector<CheckpointName>{{0, 2}, {0, 3}}));
  EXPECT_EQ(LoadedDifference(store, 2), "");
}

}  // namespace
}  // namespace composer
