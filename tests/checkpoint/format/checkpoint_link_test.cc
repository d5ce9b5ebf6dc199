// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/checkpoint_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/folder/cleanup.h"
#include "checkpoint/format/checkpoint_place.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using SmallJson = std::map<std::string, std::string>;

SmallJson Linked(const std::string& key) { return {{kLinkKey, "\"" + key + "\""}}; }

TEST(CheckpointLink, LeadsFromWhereItIs) {
  const struct {
    const char* place;
    const char* text;
    const char* leads_to;
  } kCases[] = {
      {"/ck/step20.pt", "./ep1-ba20\n", "/ck/ep1-ba20"},
      {"/ck/epoch1/step20.pt", "../ep1-ba20\n", "/ck/ep1-ba20"},
      {"s3://b/ck/a/c/x", "../../ep1-ba20", "s3://b/ck/ep1-ba20"},
      {"s3://b/ck/x", "../ep1-ba20", "s3://b/ep1-ba20"},
      {"s3://b/ck/x", "../../ep1-ba20", ""},
      {"/ck/latest", "ep1-ba20\n", ""},
      {"/ck/x", "./ep1-ba20/../..", ""},
      {"/ck/x", ".//etc/ep1-ba20", ""},
      {"/ck/x", "../../../../ep1-ba20", ""},
      {"/ck/x", "", ""},
      {"/ck/x", "./latest", ""},
  };
  for (const auto& test : kCases) EXPECT_EQ(FollowLink(test.place, test.text).value_or(""), test.leads_to) << test.text;
}

TEST(CheckpointLink, IsNothingElseInTheFolder) {
  for (const char* good : {"step20.pt", "epoch1/step20.pt", "ep1-ba20.pt", "ep1-ba20-rank0.pt"})
    EXPECT_TRUE(MayBeLink(good)) << good;
  for (const char* bad : {"ep1-ba20", "ep1-ba20/x", "lease/x", "lease", "a b", "../x", "", "/x"})
    EXPECT_FALSE(MayBeLink(bad)) << bad;
  EXPECT_EQ(LinkOf({{kLinkKey, "\"ep1-ba20/manifest.json\""}}), "");
  EXPECT_EQ(LinkOf({{kLinkKey, "7"}}), "");
  EXPECT_EQ(LinkOf({{kLinkKey, "{"}}), "");
  EXPECT_EQ(LinkOf({}), "");
}

TEST(CheckpointLink, IsDeletedUnlessItLeadsElsewhereByNow) {
  MemoryStore store;
  const SmallJson best = Linked("best.pt");
  ASSERT_TRUE(PutLink(store, best, {0, 10}).ok());
  ASSERT_TRUE(PutLink(store, best, {0, 20}).ok());
  ASSERT_TRUE(DeleteLink(store, best, {0, 10}).ok());
  EXPECT_EQ(*GetObject(store, "best.pt", 100), "./ep0-ba20\n");
  ASSERT_TRUE(DeleteLink(store, best, {0, 20}).ok());
  EXPECT_TRUE(DeleteLink(store, best, {0, 20}).ok()) << "there is none";
  EXPECT_TRUE(store.List("")->empty());
  EXPECT_TRUE(PutLink(store, {}, {0, 1}).ok());
  EXPECT_TRUE(store.List("")->empty());
}

TEST(CheckpointLink, IsAPlaceOfACheckpoint) {
  TempDir dir;
  LocalStore store(dir.path());
  ASSERT_TRUE(SaveOne(store, 1).ok());
  ASSERT_TRUE(SaveOne(store, 2).ok());
  ASSERT_TRUE(PutLink(store, Linked("epoch0/one.pt"), {0, 1}).ok());
  const absl::StatusOr<CheckpointPlace> place = FindCheckpointPlace(dir.Path("epoch0/one.pt"));
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->checkpoint, "ep0-ba1");
  const StoreOpener open = [&](const std::string& url) -> absl::StatusOr<std::shared_ptr<ObjectStore>> {
    return std::make_shared<LocalStore>(dir.Path(url.substr(std::string("s3://b").size())));
  };
  const absl::StatusOr<CheckpointPlace> remote = FindCheckpointPlace("s3://b/epoch0/one.pt", open);
  ASSERT_TRUE(remote.ok()) << remote.status();
  EXPECT_EQ(remote->checkpoint, "ep0-ba1");
  ASSERT_TRUE(DeleteCheckpoint(store, {0, 1}).ok());
  EXPECT_EQ(FindCheckpointPlace(dir.Path("epoch0/one.pt")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace composer
