// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/save_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/fault_store.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::Status Check(ObjectStore& store, const SaverOptions& options, CheckpointName now, bool probe = false) {
  RankExchange alone;
  return CheckSaveFolder(store, alone, options, now, probe);
}

TEST(SaveFolder, AnotherRunsNewerCheckpointsAreRefusedUnlessToBeReplaced) {
  MemoryStore store;
  EXPECT_TRUE(Check(store, {.run_name = "mine"}, {0, 0}).ok());
  ASSERT_TRUE(SaveOne(store, 5, {.run_name = "theirs"}).ok());
  const absl::Status refused = Check(store, {.run_name = "mine"}, {0, 4});
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("ep0-ba5"), HasSubstr("\"theirs\""), HasSubstr("\"mine\""), HasSubstr("save_overwrite")));
  EXPECT_TRUE(Check(store, {.run_name = "mine"}, {0, 5}).ok()) << "loaded from it: what comes is newer";
  EXPECT_TRUE(Check(store, {.run_name = "mine", .overwrite = true}, {0, 4}).ok());
  EXPECT_TRUE(Check(store, {.run_name = "theirs"}, {0, 4}).ok()) << "a run's own are replaced one by one";
  ASSERT_TRUE(store.Put("ep0-ba5/manifest.json", {"damaged"}).ok());
  EXPECT_TRUE(Check(store, {.run_name = "mine"}, {0, 4}).ok()) << "and so are damaged ones";
}

TEST(SaveFolder, WhatTheStoreSaysIsKnownBeforeTrainingOnAllRanks) {
  for (const int call : {0, 1, 2}) {  // list, write, delete
    MemoryStore memory;
    FaultStore store(memory);
    store.FailCalls(call, 1, absl::PermissionDeniedError("403 AccessDenied"));
    RunRanks(3, [&](RankExchange exchange) {
      const absl::Status status = CheckSaveFolder(store, exchange, {.run_name = "r"}, {0, 0}, true);
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << call;
      EXPECT_THAT(std::string(status.message()), HasSubstr("403 AccessDenied"));
    });
  }
  MemoryStore fine;
  EXPECT_TRUE(Check(fine, {.run_name = "r"}, {0, 0}, /*probe=*/true).ok());
  EXPECT_TRUE(fine.List("")->empty()) << "no trace of the probe";
}

}  // namespace
}  // namespace composer
