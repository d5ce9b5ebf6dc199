// SPDX-License-Identifier: Apache-2.0
#include "worker/thread_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {

// Outside of the unnamed namespace, so that it has a name in the program.
__attribute__((noinline)) void WaitHereForTheTest(absl::Notification& end) {
  end.WaitForNotification();
  asm volatile("" ::: "memory");  // no call in the place of a return
}

namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kForever = absl::Seconds(20);

// A thread with a name, which waits in WaitHereForTheTest until the end of its scope.
class Waiting {
 public:
  explicit Waiting(const char* name, bool blocks_signals = false)
      : thread_([this, name, blocks_signals] {
          pthread_setname_np(pthread_self(), name);
          sigset_t all;
          sigfillset(&all);
          if (blocks_signals) pthread_sigmask(SIG_BLOCK, &all, nullptr);
          id_ = static_cast<pid_t>(syscall(SYS_gettid));
          there_.Notify();
          WaitHereForTheTest(end_);
        }) {
    there_.WaitForNotification();
  }
  ~Waiting() {
    end_.Notify();
    thread_.join();
  }
  pid_t id() const { return id_; }

 private:
  absl::Notification there_, end_;
  std::atomic<pid_t> id_ = 0;
  std::thread thread_;
};

const ThreadStack* Find(const std::vector<ThreadStack>& stacks, pid_t thread) {
  for (const ThreadStack& stack : stacks) {
    if (stack.thread == thread) return &stack;
  }
  return nullptr;
}

TEST(ThreadStacks, EachThreadSaysWhereItIs) {
  const Waiting first("first"), second("second"), twin("second");
  const std::vector<ThreadStack> stacks = TakeStacks(kForever);
  EXPECT_EQ(Find(stacks, static_cast<pid_t>(syscall(SYS_gettid))), nullptr) << "not the one that asks";
  const ThreadStack* stack = Find(stacks, first.id());
  ASSERT_NE(stack, nullptr);
  EXPECT_EQ(stack->name, "first");
  EXPECT_GT(stack->frames.size(), 3u);
  const std::string text = DescribeStacks(stacks);
  EXPECT_THAT(text, ContainsRegex(absl::StrCat("\nthread ", first.id(), " first, [RS].*:\n  #0 ")));
  EXPECT_THAT(text, HasSubstr("composer::WaitHereForTheTest"));
  EXPECT_THAT(text, Not(HasSubstr("TakeOwnStack"))) << "the handler is not a part of it";
}

TEST(ThreadStacks, ThreadsWithOneStackShareIt) {
  void* const frame = reinterpret_cast<void*>(&WaitHereForTheTest);
  const std::string text = DescribeStacks({{7, "pool", 'S', "futex", {frame}},
                                           {8, "pool", 'S', "futex", {frame}},
                                           {9, "pool", 'R', "", {}},
                                           {10, "a\x1b[2J", 'S', "", {frame}}});
  EXPECT_THAT(text, HasSubstr("\nthreads 7 8 pool, S in futex:\n  #0  composer::WaitHereForTheTest"));
  EXPECT_THAT(text, HasSubstr("\nthread 9 pool, R: does not answer\n"));
  EXPECT_THAT(text, HasSubstr("\nthread 10 a\\x1b[2J, S:\n"));
}

TEST(ThreadStacks, WhoBlocksTheSignalIsListedWithoutAStack) {
  const Waiting deaf("deaf", /*blocks_signals=*/true), open("open");
  for (int i = 0; i < 2; ++i) {
    const std::vector<ThreadStack> stacks = TakeStacks(absl::Milliseconds(200));
    ASSERT_NE(Find(stacks, deaf.id()), nullptr);
    EXPECT_TRUE(Find(stacks, deaf.id())->frames.empty());
    EXPECT_FALSE(Find(stacks, open.id())->frames.empty());
  }
}

TEST(ThreadStacks, AFileARankAndALineThatNamesIt) {
  const TempDir folder;
  ::testing::internal::CaptureStderr();
  const absl::Status status = WriteStacks(folder.path(), 3);
  const std::string said = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(status.ok()) << status;
  const std::string path = folder.Path("stacks-rank-00003.txt");
  EXPECT_THAT(said, HasSubstr(path));
  EXPECT_THAT(*ReadFile(path), AllOf(HasSubstr(absl::StrCat("rank 3 (pid ", getpid(), ") at "))));
  EXPECT_EQ(WriteStacks(folder.Path("nowhere"), 3).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace composer
