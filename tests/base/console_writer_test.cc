// SPDX-License-Identifier: Apache-2.0
#include "base/console_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/support/processes.h"

namespace composer {
namespace {

using Urgency = ConsoleWriter::Urgency;
using Place = ConsoleWriter::Place;
constexpr absl::Duration kLong = absl::Seconds(5);

// A pipe with a buffer of one page.
class Pipe {
 public:
  Pipe() {
    EXPECT_EQ(pipe(fds_), 0);
    EXPECT_EQ(fcntl(fds_[1], F_SETPIPE_SZ, 4096), 4096);
  }
  ~Pipe() {
    CloseReader();
    close(fds_[1]);
  }
  int end() const { return fds_[1]; }
  void CloseReader() {
    if (fds_[0] >= 0) close(fds_[0]);
    fds_[0] = -1;
  }
  // Reads what is there or arrives within 100 ms.
  std::string Read() {
    std::string text;
    char buffer[4096];
    pollfd ready = {fds_[0], POLLIN, 0};
    while (poll(&ready, 1, 100) > 0) {
      const ssize_t count = read(fds_[0], buffer, sizeof(buffer));
      if (count <= 0) break;
      text.append(buffer, static_cast<size_t>(count));
    }
    return text;
  }

 private:
  int fds_[2];
};

TEST(ConsoleWriterTest, WritesInOrder) {
  Pipe pipe;
  ConsoleWriter writer(pipe.end());
  writer.Write("one ");
  writer.Write("");
  writer.Write("two\n", Urgency::kUrgent);
  EXPECT_TRUE(writer.Flush(kLong));
  EXPECT_EQ(pipe.Read(), "one two\n");
}

TEST(ConsoleWriterTest, AMessageLeavesTheLineOfAProgressBar) {
  Pipe pipe;
  ConsoleWriter writer(pipe.end());
  writer.Write("told\n", Urgency::kUrgent, Place::kNewLine);
  writer.Write("10%\r20%");
  writer.Write("told\n", Urgency::kUrgent, Place::kNewLine);
  writer.Write("again\n", Urgency::kUrgent, Place::kNewLine);
  EXPECT_TRUE(writer.Flush(kLong));
  EXPECT_EQ(pipe.Read(), "told\n10%\r20%\ntold\nagain\n");
}

TEST(ConsoleWriterTest, WhatDoesNotFitIsCountedWhereItIsMissing) {
  Pipe pipe;
  ConsoleWriter writer(pipe.end(), 10'000);
  const std::string kilo = std::string(999, 'x') + "\n";
  for (int i = 0; i < 100; ++i) writer.Write(kilo);
  EXPECT_FALSE(writer.HasRoom());
  writer.Write("composer: heard\n", Urgency::kUrgent);
  EXPECT_FALSE(writer.Flush(absl::Milliseconds(30)));
  std::string shown = pipe.Read();
  EXPECT_TRUE(writer.HasRoom());
  writer.Write("and on\n");
  EXPECT_TRUE(writer.Flush(kLong));
  shown += pipe.Read();
  const size_t kept = static_cast<size_t>(std::count(shown.begin(), shown.end(), 'x')) / 999;
  EXPECT_GE(kept, 10u);
  EXPECT_LE(kept, 15u);  // including what the pipe and the thread hold
  std::string expected;
  for (size_t i = 0; i < kept; ++i) expected += kilo;
  absl::StrAppend(&expected, "composer: ", 1000 * (100 - kept),
                  " bytes of output are missing here: nobody read them in time\ncomposer: heard\nand on\n");
  EXPECT_EQ(shown, expected);
}

TEST(ConsoleWriterTest, TheReserveIsBoundedToo) {
  Pipe pipe;
  ConsoleWriter writer(pipe.end(), 10'000);
  const std::string mega(1 << 20, 'y');
  for (int i = 0; i < 8; ++i) writer.Write(mega, Urgency::kUrgent);
  std::string shown;
  for (std::string more = pipe.Read(); !more.empty(); more = pipe.Read()) shown += more;
  EXPECT_LE(shown.size(), 10'000 + ConsoleWriter::kReserve + 4096);
  EXPECT_GE(shown.size(), ConsoleWriter::kReserve);
}

TEST(ConsoleWriterTest, SaysWhenThereIsRoomAgain) {
  Pipe pipe;
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ConsoleWriter writer(pipe.end(), 10'000);
  writer.WakeWhenRoom(wake);
  writer.Write(std::string(30'000, 'x'));
  eventfd_t count = 0;
  EXPECT_NE(eventfd_read(wake, &count), 0);
  EXPECT_EQ(pipe.Read().size(), 30'000u);
  EXPECT_EQ(eventfd_read(wake, &count), 0);
  close(wake);
}

TEST(ConsoleWriterTest, FlushWaitsForASlowReaderAndNotForOneThatSleeps) {
  Pipe pipe;
  ConsoleWriter writer(pipe.end());
  writer.Write(std::string(100'000, 'x'));
  EXPECT_FALSE(writer.Flush(absl::Milliseconds(30)));
  EXPECT_FALSE(writer.Flush(kLong, [] { return true; }));
  std::thread slow([&pipe] {
    size_t total = 0;
    while (total < 100'000) total += pipe.Read().size();
  });
  EXPECT_TRUE(writer.Flush(kLong));
  slow.join();
}

TEST(ConsoleWriterTest, EndsBesideAStuckWrite) {
  Pipe pipe;
  const absl::Time start = absl::Now();
  {
    ConsoleWriter(pipe.end()).Write(std::string(100'000, 'x'));
  }
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
  pipe.Read();  // lets the thread that was left behind finish
}

TEST(ConsoleWriterTest, AReaderThatIsGoneIsForgotten) {
  signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  ConsoleWriter writer(pipe.end(), 1000);
  pipe.CloseReader();
  for (int i = 0; i < 100; ++i) writer.Write("nobody reads this, and nothing waits for it\n");
  EXPECT_TRUE(writer.Flush(kLong));
  EXPECT_TRUE(WaitUntil([&] { return writer.HasRoom(); }, kLong));
}

}  // namespace
}  // namespace composer
