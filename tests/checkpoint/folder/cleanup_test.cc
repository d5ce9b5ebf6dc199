// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/cleanup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/fault_store.h"
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
  for (const char* step : {"ep0-ba1", "ep0-ba3"})
    ASSERT_TRUE(store.Put(AttemptKey(step, NewAttemptName("run")) + "/rank-00001.safetensors", {"x"}).ok());
  ASSERT_TRUE(DeleteInterrupted(store, {"run"}).ok());
  EXPECT_EQ(*store.List(""), before);
}

TEST(DeleteInterrupted, TakesWhatACutOffWriteLeftInAFolder) {
  TempDir dir;
  LocalStore store(dir.path());
  ASSERT_TRUE(SaveOne(store, 1).ok());
  const std::vector<std::string> before = *store.List("");
  ASSERT_TRUE(MakeDirs(dir.Path(AttemptKey("ep0-ba2", NewAttemptName("run")))).ok());
  ASSERT_TRUE(MakeDirs(dir.Path("ep0-ba3")).ok());
  for (const char* remains : {".put-1-latest", "ep0-ba1/.put-2-manifest.json", "ep0-ba4/.put-3-x"}) {
    ASSERT_TRUE(MakeDirs(DirName(dir.Path(remains))).ok());
    ASSERT_TRUE(AtomicWriteFile(dir.Path(remains), "x").ok());
  }
  ASSERT_TRUE(AtomicWriteFile(dir.Path(".gitignore"), "x").ok());
  ASSERT_TRUE(DeleteInterrupted(store, {"run"}).ok());
  EXPECT_EQ(*store.List(""), before);
  EXPECT_THAT(*ListDir(dir.path()), testing::ElementsAre(".gitignore", "ep0-ba1", "latest"));
}

// Another run may be writing it right now.
TEST(DeleteInterrupted, LeavesAttemptsOfOtherRuns) {
  MemoryStore store;
  ASSERT_TRUE(SaveOne(store, 1).ok());
  for (const char* step : {"ep0-ba1", "ep0-ba3"})
    ASSERT_TRUE(store.Put(AttemptKey(step, NewAttemptName("other")) + "/rank-00001.safetensors", {"x"}).ok());
  const std::vector<std::string> before = *store.List("");
  const std::string own = AttemptKey("ep0-ba3", NewAttemptName("run"));
  ASSERT_TRUE(store.Put(own + "/rank-00000.safetensors", {"x"}).ok());
  ASSERT_TRUE(DeleteInterrupted(store, {"run"}).ok());
  EXPECT_EQ(*store.List(""), before);
  ASSERT_TRUE(DeleteOld(store, {0, 1}, 1, {"run"}).ok());
  EXPECT_EQ(UnfinishedAttempts(store)->size(), 1u) << "at a step that is committed they can commit no more";
}

// A store in which an attempt is committed after it was listed.
class CommitsLate final : public FaultStore {
 public:
  explicit CommitsLate(ObjectStore& inner, std::function<void()> commit)
      : FaultStore(inner), commit_(std::move(commit)) {}
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    auto keys = FaultStore::List(folder);
    if (commit_) std::exchange(commit_, nullptr)();
    return keys;
  }

 private:
  std::function<void()> commit_;
};

TEST(DeleteInterrupted, LooksAgainBeforeItDeletes) {
  MemoryStore store;
  ASSERT_TRUE(SaveOne(store, 3, {.run_name = "run"}).ok());
  const std::string manifest = GetObject(store, ManifestKey("ep0-ba3"), 1 << 20).value();
  ASSERT_TRUE(store.Delete(ManifestKey("ep0-ba3")).ok());
  CommitsLate late(store, [&] { ASSERT_TRUE(store.Put(ManifestKey("ep0-ba3"), {manifest}).ok()); });
  ASSERT_TRUE(DeleteInterrupted(late, {"run"}).ok());
  EXPECT_EQ(LoadedDifference(store, 3), "");
}

TEST(DeleteInterrupted, DeletesNothingOnceTheFolderIsAnothers) {
  MemoryStore store;
  ASSERT_TRUE(SaveOne(store, 1).ok());
  ASSERT_TRUE(store.Put(AttemptKey("ep0-ba3", NewAttemptName("run")) + "/rank-00000.safetensors", {"x"}).ok());
  const std::vector<std::string> before = *store.List("");
  const CleanupScope lost = {"run", [] { return absl::FailedPreconditionError("taken over"); }};
  EXPECT_EQ(DeleteInterrupted(store, lost).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(SaveOne(store, 2).ok());
  EXPECT_EQ(DeleteOld(store, {0, 2}, 1, lost).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CommittedCheckpoints(store)->size(), 2u);
}

TEST(DeleteOld, NeverTheOneJustSaved) {
  MemoryStore store;
  for (int64_t batch : {1, 2, 3}) ASSERT_TRUE(SaveOne(store, batch).ok());
  ASSERT_TRUE(DeleteOld(store, {0, 2}, 1, {"r"}).ok());
  EXPECT_EQ(*CommittedCheckpoints(store), (std::vector<CheckpointName>{{0, 2}, {0, 3}}));
  EXPECT_EQ(LoadedDifference(store, 2), "");
}

// A store that remembers what List gave.
class RemembersLists final : public FaultStore {
 public:
  using FaultStore::FaultStore;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    auto keys = FaultStore::List(folder);
    if (keys.ok()) listed.insert(listed.end(), keys->begin(), keys->end());
    return keys;
  }
  std::vector<std::string> listed;
};

// L7: where all checkpoints stay, each save listed them all, so that memory and time of a save grew with their number.
TEST(DeleteOld, LooksAtNoOtherStepWhereAllStay) {
  MemoryStore store;
  for (int64_t batch : {1, 2, 3}) ASSERT_TRUE(SaveOne(store, batch).ok());
  const std::string replaced = AttemptKey("ep0-ba3", NewAttemptName("other")) + "/rank-00000.safetensors";
  ASSERT_TRUE(store.Put(replaced, {"x"}).ok());
  RemembersLists lists(store);
  ASSERT_TRUE(DeleteOld(lists, {0, 3}, -1, {"run"}).ok());
  EXPECT_THAT(lists.listed, testing::Each(testing::StartsWith("ep0-ba3/")));
  EXPECT_TRUE(UnfinishedAttempts(store)->empty()) << "the replaced one's data are gone";
  EXPECT_EQ(CommittedCheckpoints(store)->size(), 3u);
  EXPECT_EQ(LoadedDifference(store, 3), "");
}

}  // namespace
}  // namespace composer
