// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/rank_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/console.h"
#include "base/file.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kLogStart = absl::FromUnixSeconds(1000);

TEST(LineSplitterTest, WholeLinesOnly) {
  LineSplitter lines;
  EXPECT_EQ(lines.Take("ab", kLogStart), "");
  EXPECT_EQ(lines.Take("c\nd\ne", kLogStart), "abc\nd\n");
  EXPECT_EQ(lines.Take("\n", kLogStart), "e\n");
  EXPECT_EQ(lines.Flush(), "");
  EXPECT_EQ(lines.Take("last", kLogStart), "");
  EXPECT_EQ(lines.Flush(), "last\n");
}

TEST(LineSplitterTest, AnEndlessLineComesInPieces) {
  LineSplitter lines;
  const std::string half(LineSplitter::kMaxLine / 2, 'x');
  EXPECT_EQ(lines.Take(half, kLogStart), "");
  EXPECT_EQ(lines.Take(half, kLogStart), half + half + "\n");
}

// A bar is redrawn ten times a second; the log gets one line every ten seconds, and the last one.
TEST(LineSplitterTest, RedrawsAreALineAnInterval) {
  LineSplitter lines;
  std::string log;
  for (int i = 0; i <= 250; ++i) {
    const std::string bar = absl::StrCat("\rtrain: ", i, "%|███▌  | ", i, "/469 [loss=0.5]\x1b[K");
    log += lines.Take(bar, kLogStart + absl::Milliseconds(100 * i));
  }
  log += lines.Take("\nstopped: drained\n", kLogStart + absl::Seconds(26));
  EXPECT_EQ(log,
            "train: 100% 100/469 [loss=0.5]\ntrain: 200% 200/469 [loss=0.5]\ntrain: 250% 250/469 [loss=0.5]\n"
            "stopped: drained\n");
}

TEST(LineSplitterTest, ReturnsAtTheEndsOfLinesAreNoRedraws) {
  LineSplitter lines;
  EXPECT_EQ(lines.Take("a\r\nb\r", kLogStart), "a\n");
  EXPECT_EQ(lines.Take("\nc|  |d\n", kLogStart), "b\nc|  |d\n");
  EXPECT_EQ(lines.Take("10%|#  | x\r20%|#  | x", kLogStart), "");
  EXPECT_EQ(lines.Flush(), "20%|#  | x\n");
}

TEST(BarSeparatorTest, WhatIsSaidBesideABarBeginsALine) {
  BarSeparator bar;
  EXPECT_EQ(bar.Take("hello\n"), "hello\n");
  EXPECT_EQ(bar.Take("\rbar 1\x1b[K\rbar 2\x1b"), "\rbar 1\x1b[K\rbar 2\x1b");
  EXPECT_EQ(bar.Take("[K"), "[K");
  EXPECT_EQ(bar.Take("stopped: drained\nmore\n"), "\nstopped: drained\nmore\n");
  EXPECT_EQ(bar.Take("\rbar 3\x1b[KW1122 a warning\n\rbar 4\x1b[K\n"),
            "\rbar 3\x1b[K\nW1122 a warning\n\rbar 4\x1b[K\n");
  EXPECT_EQ(bar.Take("next\n"), "next\n");
  EXPECT_EQ(bar.Take("\x1b[31m\x1b[Kred\x1b[m\x1b[K by grep\n"), "\x1b[31m\x1b[Kred\x1b[m\x1b[K by grep\n");
}

TEST(LineTailTest, KeepsTheLastLinesAsShown) {
  LineTail tail;
  for (int i = 0; i < 30; ++i) tail.Add(absl::StrCat("line ", i, "\n"));
  tail.Add("10%\r20%\rdone\r\n\n" + std::string(1000, 'y') + "\n");
  const std::vector<std::string> lines = tail.lines();
  ASSERT_EQ(lines.size(), LineTail::kLines);
  EXPECT_EQ(lines[0], "line 12");
  EXPECT_EQ(lines[18], "done");
  EXPECT_EQ(lines[19], std::string(LineTail::kMaxColumns, 'y'));
}

TEST(RankPrefixTest, ColouredByRankOnlyWhenAsked) {
  EXPECT_EQ(RankPrefix(3, false), "[3] ");
  EXPECT_EQ(RankPrefix(0, true), "\033[36m[0]\033[0m ");
  for (int rank = 0; rank < 30; ++rank) {
    const auto colour = [](int r) { return RankPrefix(r, true).substr(0, 5); };
    EXPECT_NE(colour(rank), colour(rank + 1));
    EXPECT_NE(colour(rank), "\033[31m");
  }
}

TEST(WantsColourTest, TerminalsUnlessToldOtherwise) {
  const Environment none, no_color({{"NO_COLOR", "1"}, {"CLICOLOR_FORCE", "1"}}),
      empty({{"NO_COLOR", std::string("")}}), dumb({{"TERM", std::string("dumb")}}),
      force({{"CLICOLOR_FORCE", std::string("1")}}), force_not({{"CLICOLOR_FORCE", std::string("0")}});
  EXPECT_TRUE(WantsColour(true, none));
  EXPECT_FALSE(WantsColour(false, none));
  EXPECT_FALSE(WantsColour(true, no_color));
  EXPECT_TRUE(WantsColour(true, empty));
  EXPECT_FALSE(WantsColour(true, dumb));
  EXPECT_TRUE(WantsColour(false, force));
  EXPECT_FALSE(WantsColour(false, force_not));
}

// The write ends of a rank's pipes.
struct Pipes {
  int out[2];
  int err[2];
  Pipes() {
    EXPECT_EQ(pipe(out), 0);
    EXPECT_EQ(pipe(err), 0);
  }
  ~Pipes() {
    close(out[1]);
    close(err[1]);
  }
  void Out(absl::string_view text) {
    EXPECT_EQ(write(out[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void Err(absl::string_view text) {
    EXPECT_EQ(write(err[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  RankLogs::Rank Rank(int rank, RankLogs::Show show, std::string path = "") {
    return {rank, out[0], err[0], std::move(path), show, show};
  }
};

TEST(RankLogsTest, RawGoesThroughAsItComes) {
  testing::internal::CaptureStdout();
  Pipes pipes;
  Console console;
  RankLogs logs(console);
  ASSERT_TRUE(logs.Add(pipes.Rank(0, RankLogs::Show::kRaw)).ok());
  pipes.Out("10%\r20%");
  logs.Drain();
  EXPECT_TRUE(console.Flush(absl::Seconds(5)));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "10%\r20%");
}

TEST(RankLogsTest, PrefixedLinesAreWhole) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Pipes a, b;
  Console console;
  RankLogs logs(console);
  ASSERT_TRUE(logs.Add(a.Rank(0, RankLogs::Show::kPrefixed)).ok());
  ASSERT_TRUE(logs.Add(b.Rank(12, RankLogs::Show::kPrefixed)).ok());
  a.Out("one\ntw");
  b.Err("oops\n");
  a.Out("o\nrest");
  logs.Drain();
  EXPECT_TRUE(console.Flush(absl::Seconds(5)));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[0] one\n[0] two\n[0] rest\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[12] oops\n");
}

TEST(RankLogsTest, FilesKeepBothStreamsAndAreAppendedTo) {
  TempDir dir;
  ASSERT_TRUE(AtomicWriteFile(dir.Path("log"), "before\n").ok());
  Pipes pipes;
  Console console;
  RankLogs logs(console);
  ASSERT_TRUE(logs.Add(pipes.Rank(1, RankLogs::Show::kHidden, dir.Path("log"))).ok());
  pipes.Out("out\n");
  EXPECT_TRUE(WaitUntil([&] { return *ReadFile(dir.Path("log")) == "before\nout\n"; }, absl::Seconds(5)));
  pipes.Err("err\nhalf");
  EXPECT_THAT(logs.StderrTail(1), ElementsAre("err"));
  logs.Drain();
  EXPECT_EQ(*ReadFile(dir.Path("log")), "before\nout\nerr\nhalf\n");
  EXPECT_THAT(logs.StderrTail(1), IsEmpty());
}

TEST(RankLogsTest, ALineThatWasToldIsNotShownAgain) {
  TempDir dir;
  testing::internal::CaptureStderr();
  Pipes raw, prefixed, hidden, late;
  Console console;
  RankLogs logs(console);
  ASSERT_TRUE(logs.Add(hidden.Rank(2, RankLogs::Show::kHidden)).ok());
  hidden.Err("error: lr is -1\n");
  EXPECT_FALSE(logs.WasShown("error: lr is -1")) << "only its file has it";
  ASSERT_TRUE(logs.Add(raw.Rank(0, RankLogs::Show::kRaw, dir.Path("log"))).ok());
  ASSERT_TRUE(logs.Add(prefixed.Rank(1, RankLogs::Show::kPrefixed)).ok());
  raw.Err("10%\nerror: lr is -1\n20%");
  prefixed.Err("error: lr is -1\nerror: lr is -10\n");
  logs.Drain();
  EXPECT_EQ(*ReadFile(dir.Path("log")), "10%\nerror: lr is -1\n20%\n");
  ASSERT_TRUE(logs.Add(late.Rank(3, RankLogs::Show::kRaw)).ok());
  const std::string text = absl::StrCat("error: ", std::string(1000, 'x'));
  late.Err(text + "\n");
  EXPECT_TRUE(logs.WasShown(text));
  logs.Drain();
  EXPECT_TRUE(console.Flush(absl::Seconds(5)));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "10%\n20%\n[1] error: lr is -10\n" + text + "\n");
}

// A stdout pipe that nobody reads until Read.
class BlockedStdout {
 public:
  BlockedStdout() : saved_(dup(STDOUT_FILENO)) {
    fflush(stdout);
    signal(SIGPIPE, SIG_IGN);  // as the launcher does: its writer may still be at it when nobody reads any more
    EXPECT_EQ(pipe(pipe_), 0);
    dup2(pipe_[1], STDOUT_FILENO);
    close(pipe_[1]);
  }
  ~BlockedStdout() {
    Restore();
    close(pipe_[0]);
  }
  void Restore() {
    if (saved_ >= 0) dup2(saved_, STDOUT_FILENO), close(saved_);
    saved_ = -1;
  }
  // Reads until `size` bytes are there or nothing arrives for 5 s.
  std::string Read(size_t size) {
    std::string text;
    char buffer[64 << 10];
    while (text.size() < size) {
      pollfd ready = {pipe_[0], POLLIN, 0};
      if (poll(&ready, 1, 5000) <= 0) break;
      const ssize_t count = read(pipe_[0], buffer, sizeof(buffer));
      if (count <= 0) break;
      text.append(buffer, static_cast<size_t>(count));
    }
    return text;
  }

 private:
  int saved_;
  int pipe_[2];
};

// Runs a program on its own thread that writes numbered lines, about 20 bytes each.
std::thread WriteLines(Pipes& pipes, int count, std::atomic<bool>& done) {
  return std::thread([&pipes, count, &done] {
    for (int i = 0; i < count; ++i) pipes.Out(absl::StrFormat("this is line %06d\n", i));
    done = true;
  });
}

TEST(RankLogsTest, ATerminalThatDoesNotReadStopsNobodyWhereAFileKeepsAll) {
  TempDir dir;
  constexpr int kLines = 200'000;  // 4 MB
  BlockedStdout blocked;
  Pipes pipes;
  Console console;
  RankLogs logs(console);
  ASSERT_TRUE(logs.Add(pipes.Rank(0, RankLogs::Show::kRaw, dir.Path("log"))).ok());
  std::atomic<bool> done = false;
  std::thread program = WriteLines(pipes, kLines, done);
  EXPECT_TRUE(WaitUntil([&] { return done.load(); }, absl::Seconds(20)));
  pipes.Err("last words\n");
  EXPECT_THAT(logs.StderrTail(0), ElementsAre("last words")) << "must not wait for the terminal";
  logs.Drain();
  EXPECT_EQ(ReadFile(dir.Path("log"))->size(), size_t{20} * kLines + 11);
  EXPECT_FALSE(console.Flush(absl::Milliseconds(50)));
  const std::string shown = blocked.Read(ConsoleWriter::kCapacity);
  EXPECT_THAT(shown.substr(0, 40), "this is line 000000\nthis is line 000001\n");
  program.join();
}

TEST(RankLogsTest, OutputThatNoFileKeepsWaitsForTheTerminal) {
  constexpr int kLines = 200'000;
  BlockedStdout blocked;
  Pipes pipes;
  Console console;
  RankLogs logs(console);
  ASSERT_TRUE(logs.Add(pipes.Rank(0, RankLogs::Show::kRaw)).ok());
  std::atomic<bool> done = false;
  std::thread program = WriteLines(pipes, kLines, done);
  pipes.Err("last words\n");
  EXPECT_THAT(logs.StderrTail(0), ElementsAre("last words"));
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_FALSE(done) << "4 MB fit nowhere";
  const std::string shown = blocked.Read(size_t{20} * kLines);
  EXPECT_EQ(shown.size(), size_t{20} * kLines);
  EXPECT_TRUE(absl::EndsWith(shown, absl::StrFormat("this is line %06d\n", kLines - 1)));
  program.join();
}

TEST(RankLogsTest, AMissingFolderIsAnError) {
  TempDir dir;
  Pipes pipes;
  Console console;
  RankLogs logs(console);
  const absl::Status status = logs.Add(pipes.Rank(0, RankLogs::Show::kHidden, dir.Path("no/log")));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir.Path("no/log")));
}

}  // namespace
}  // namespace composer
