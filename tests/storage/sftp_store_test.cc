// The store against OpenSSH's own sftp-server, which speaks on its standard streams as `ssh -s HOST sftp` does.
// SPDX-License-Identifier: Apache-2.0
#include "storage/sftp_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "storage/open_store.h"
#include "tests/conformance/object_store_suite.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::shared_ptr<ObjectStore> OverCommand(std::vector<std::string> command, const std::string& folder) {
  return std::make_shared<SftpStore>(SftpStore::Options{.command = std::move(command),
                                                        .environment = Environment::FromProcess(),
                                                        .folder = folder,
                                                        .url = absl::StrCat("sftp://host", folder),
                                                        .retry = {.base = absl::Milliseconds(1), .max_tries = 3}});
}

TEST(SftpStoreWithoutServer, SaysWhatSshSaid) {
  const auto store = OverCommand({"/bin/sh", "-c", "echo 'no route to host' >&2; exit 255"}, "/x");
  const absl::Status status = store->Put("k", {"bytes"});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("sftp://host/x/k"), HasSubstr("no route to host")));
  EXPECT_THAT(std::string(OverCommand({"no-such-program"}, "/x")->Size("k").status().message()),
              HasSubstr("cannot start no-such-program"));
}

TEST(SftpStoreWithoutServer, ALoginThatPrintsIsNoServer) {
  const auto store = OverCommand({"/bin/sh", "-c", "echo 'Welcome to host'; cat > /dev/null"}, "/x");
  EXPECT_THAT(std::string(store->Size("k").status().message()), HasSubstr("does not answer as an SFTP server"));
}

TEST(SftpStoreWithoutServer, GiveUpEndsAWait) {
  const auto store = OverCommand({"/bin/cat", "/dev/zero"}, "/x");
  const auto silent = OverCommand({"/bin/sleep", "100"}, "/x");
  std::thread other([&] { silent->GiveUp(); });
  EXPECT_EQ(silent->Size("k").status().code(), absl::StatusCode::kCancelled);
  other.join();
  store->GiveUp();
  EXPECT_EQ(store->Put("k", {}).code(), absl::StatusCode::kCancelled);
}

TEST(SftpPlace, IsReadOrRefused) {
  const Environment env;
  EXPECT_EQ((*OpenStore("sftp://me@host.example:2222/runs/mine/", env))->Location("a"),
            "sftp://me@host.example:2222/runs/mine/a");
  for (const char* place : {"sftp://", "sftp://host", "sftp://host/", "sftp://-oProxyCommand=x/a", "sftp://h:0/a",
                            "sftp://h:x/a", "sftp://h/a/../b", "sftp://u ser@h/a", "sftp://@h/a b"}) {
    EXPECT_THAT(std::string(OpenStore(place, env).status().message()), HasSubstr("expected sftp://[user@]host"))
        << place;
  }
}

TEST(PlacesOfComposer, AreRefusedWithTheWayOut) {
  const Environment env;
  EXPECT_THAT(std::string(OpenStore("wandb://entity/model:v3", env).status().message()),
              HasSubstr("`wandb artifact get NAME:VERSION` fetches"));
  EXPECT_THAT(std::string(OpenStore("mlflow-artifacts://x/y", env).status().message()),
              HasSubstr("`mlflow artifacts download` fetches"));
}

#ifdef COMPOSER_SFTP_SERVER

INSTANTIATE_TEST_SUITE_P(Sftp, ObjectStoreSuite, testing::Values([] {
                           const auto folder = std::make_shared<TempDir>();
                           const auto store = OverCommand({COMPOSER_SFTP_SERVER}, folder->Path("not/yet/there"));
                           return std::shared_ptr<ObjectStore>(store.get(), [folder, store](ObjectStore*) {});
                         }));

TEST(SftpStoreTest, ALostConnectionIsMadeAnew) {
  const TempDir dir;
  const std::string script = absl::StrCat("if mkdir ", dir.Path("once"),
                                          " 2>/dev/null; then dd bs=1 count=20000 2>/dev/null | " COMPOSER_SFTP_SERVER
                                          "; else exec " COMPOSER_SFTP_SERVER "; fi");
  const auto store = OverCommand({"/bin/sh", "-c", script}, dir.Path("store"));
  const std::string bytes(200'000, 'b');
  ASSERT_TRUE(store->Put("a/k", {bytes}).ok());
  EXPECT_EQ(GetObject(*store, "a/k", 1 << 20).value(), bytes);
  ASSERT_TRUE(PathExists(dir.Path("once")));
  // What the first try left behind is found and can be deleted.
  const std::vector<std::string> keys = store->List("").value();
  for (const std::string& key : keys) {
    if (IsLeftover(key)) EXPECT_TRUE(store->Delete(key).ok()) << key;
  }
  EXPECT_THAT(store->List("").value(), testing::ElementsAre("a/k"));
  ASSERT_TRUE(store->DeleteTree("a").ok());
  EXPECT_THAT(ListDir(dir.Path("store")).value(), testing::IsEmpty());
}

TEST(SftpStoreTest, ARefusedRenameLeavesNothingBehind) {
  const TempDir dir;
  const auto store = OverCommand({COMPOSER_SFTP_SERVER, "-P", "posix-rename"}, dir.path());
  EXPECT_EQ(store->Put("k", {"x"}).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(store->List("").value(), testing::IsEmpty());
}

TEST(SftpStoreTest, AReadOnlyServerIsReadAndRefusesTheRest) {
  const TempDir dir;
  const auto store = OverCommand({COMPOSER_SFTP_SERVER, "-R"}, dir.path());
  EXPECT_EQ(store->Put("k", {"x"}).code(), absl::StatusCode::kPermissionDenied);
  ASSERT_TRUE(AtomicWriteFile(dir.Path("k"), "there").ok());
  EXPECT_EQ(GetObject(*store, "k", 100).value(), "there");
}

#endif

}  // namespace
}  // namespace composer
