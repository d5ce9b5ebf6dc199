// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/processor_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/support/processes.h"

namespace composer {
namespace {

using ::testing::Contains;
using ::testing::Key;

TEST(ProcessorWait, ReadsWhatTheKernelWrites) {
  const auto times = ParseSchedstat("2670970 1500000000 7\n");
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->ran, absl::Nanoseconds(2'670'970));
  EXPECT_EQ(times->waited, absl::Milliseconds(1500));
  for (const char* bad : {"", "1 2", "-1 2 3", "1 -2 3", "a b c", "1 99999999999999999999 3"})
    EXPECT_FALSE(ParseSchedstat(bad).has_value()) << bad;
  EXPECT_TRUE(ReadThreadTimes(1 << 30).empty()) << "no such process";
}

ThreadTimes After(int ran, int waited, bool runnable = true) {
  return {.ran = absl::Seconds(ran), .waited = absl::Seconds(waited), .runnable = runnable};
}

TEST(ProcessorWait, TheLongestOfAllThreadsCounts) {
  const struct {
    const char* name;
    ThreadTimesById before, now;
    int seconds;
  } cases[] = {
      {"no thread", {}, {}, 0},
      {"the one that waited", {{1, After(0, 0)}, {2, After(5, 3)}}, {{1, After(9, 1)}, {2, After(6, 7)}}, 4},
      {"a wait that has not ended yet", {{1, After(5, 3)}}, {{1, After(5, 3)}}, 10},
      {"a blocked thread does not wait for a processor", {{1, After(5, 3, false)}}, {{1, After(5, 3, false)}}, 0},
      {"one that has just become runnable", {{1, After(5, 3, false)}}, {{1, After(5, 3)}}, 0},
      {"a wait that began before the first look", {{1, After(5, 3)}}, {{1, After(6, 99)}}, 10},
      {"a new thread", {}, {{1, After(0, 7)}}, 0},
      {"a thread that has ended", {{1, After(0, 7)}}, {}, 0},
  };
  for (const auto& c : cases)
    EXPECT_EQ(LongestWait(c.before, c.now, absl::Seconds(10)), absl::Seconds(c.seconds)) << c.name;
}

// Runs `work` again and again on processor `cpu`, at a nice value, until it is destroyed.
class Looper {
 public:
  Looper(int cpu, int nice, std::function<void()> work)
      : thread_([this, cpu, nice, work = std::move(work)] {
          cpu_set_t set;
          CPU_ZERO(&set);
          CPU_SET(cpu, &set);
          sched_setaffinity(0, sizeof(set), &set);
          id_ = static_cast<pid_t>(syscall(SYS_gettid));
          setpriority(PRIO_PROCESS, id_, nice);  // of this thread only
          begun_.Notify();
          while (!over_) work();
        }) {
    begun_.WaitForNotification();
  }
  ~Looper() {
    over_ = true;
    thread_.join();
  }
  pid_t id() const { return id_; }

 private:
  std::atomic<bool> over_ = false;
  pid_t id_ = 0;
  absl::Notification begun_;
  std::thread thread_;
};

// Two threads compete for one processor, one of them at the lowest priority; a third one is blocked.
TEST(ProcessorWait, AStarvedThreadIsToldFromABlockedOne) {
  if (!ReadThreadTimes(getpid()).contains(getpid())) GTEST_SKIP() << "this kernel keeps no schedstat";
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  absl::Notification over;
  Looper blocked(cpu, 0, [&] { over.WaitForNotification(); });
  Looper greedy(cpu, 0, [] {});
  Looper starved(cpu, 19, [] {});

  const auto of = [](ThreadTimesById all, const Looper& looper) {
    return ThreadTimesById{{looper.id(), all[looper.id()]}};
  };
  constexpr absl::Duration kLimit = absl::Seconds(60);
  ASSERT_TRUE(WaitUntil([&] { return !ReadThreadTimes(getpid())[blocked.id()].runnable; }, kLimit));
  const absl::Time begin = absl::Now();
  const ThreadTimesById before = ReadThreadTimes(getpid());
  EXPECT_THAT(before, Contains(Key(starved.id())));
  const auto wait_of = [&](const Looper& looper) {
    return LongestWait(of(before, looper), of(ReadThreadTimes(getpid()), looper), absl::Now() - begin);
  };
  EXPECT_TRUE(WaitUntil([&] { return wait_of(starved) > absl::Milliseconds(300); }, kLimit));
  EXPECT_GE(wait_of(starved), 0.8 * (absl::Now() - begin));
  EXPECT_EQ(wait_of(blocked), absl::ZeroDuration());
  over.Notify();
}

}  // namespace
}  // namespace composer
