// SPDX-License-Identifier: Apache-2.0
#include "contract/progress_page.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

TEST(ProgressPageTest, WhatTheWorkerStoresTheLauncherReads) {
  TempDir dir;
  auto launcher = ProgressPage::Create(dir.Path("page"));
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  EXPECT_TRUE(std::isnan(launcher->Read().loss));
  EXPECT_TRUE(std::isnan(launcher->Read().data_wait));
  EXPECT_EQ(launcher->Read().first_step_unix_micros, 0);

  auto worker = ProgressPage::Open(dir.Path("page"));
  ASSERT_TRUE(worker.ok()) << worker.status();
  worker->SetStart(10, 320);
  EXPECT_EQ(launcher->Read().batch, 10);
  EXPECT_EQ(launcher->Read().first_step_unix_micros, 0);
  worker->RecordStep(11, 352, 0.5, 0.75);
  worker->SetPhase(3);
  worker->Beat();
  worker->Beat();

  const ProgressSnapshot seen = launcher->Read();
  EXPECT_EQ(seen.batch, 11);
  EXPECT_EQ(seen.samples, 352);
  EXPECT_EQ(seen.loss, 0.5);
  EXPECT_EQ(seen.data_wait, 0.75);
  EXPECT_EQ(seen.phase, 3);
  EXPECT_EQ(seen.heartbeat, 2);
  EXPECT_GT(seen.first_step_unix_micros, 0);

  worker->RecordStep(12, 384, 0.25, 0);
  EXPECT_EQ(launcher->Read().first_step_unix_micros, seen.first_step_unix_micros);
}

TEST(ProgressPageTest, SurvivesSigkill) {
  TempDir dir;
  auto launcher = ProgressPage::Create(dir.Path("page"));
  ASSERT_TRUE(launcher.ok());
  const pid_t child = fork();
  if (child == 0) {
    auto worker = ProgressPage::Open(dir.Path("page"));
    worker->RecordStep(7, 70, 1.0, 0);
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(launcher->Read().batch, 7);
  EXPECT_EQ(launcher->Read().samples, 70);
}

TEST(ProgressPageTest, RefusesOtherFiles) {
  TempDir dir;
  EXPECT_EQ(ProgressPage::Open(dir.Path("missing")).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(AtomicWriteFile(dir.Path("short"), "x").ok());
  EXPECT_EQ(ProgressPage::Open(dir.Path("short")).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(AtomicWriteFile(dir.Path("zeros"), std::string(4096, '\0')).ok());
  EXPECT_EQ(ProgressPage::Open(dir.Path("zeros")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ProgressPageTest, CreateReplaces) {
  TempDir dir;
  auto old_page = ProgressPage::Create(dir.Path("page"));
  old_page->RecordStep(5, 5, 0, 0);
  auto new_page = ProgressPage::Create(dir.Path("page"));
  ASSERT_TRUE(new_page.ok());
  old_page->RecordStep(6, 6, 0, 0);
  EXPECT_EQ(new_page->Read().batch, 0);
}

}  // namespace
}  // namespace composer
