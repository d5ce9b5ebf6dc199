// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/progress_bar.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Le;

ProgressLine Line(int64_t done, int64_t total, int seconds) {
  ProgressLine line;
  line.title = "train   Epoch 0";
  line.done = done;
  line.total = total;
  line.elapsed = absl::Seconds(seconds);
  return line;
}

TEST(ProgressLineTest, Bars) {
  ProgressLine line = Line(210, 469, 12);
  line.metrics = {{"loss", 0.41234}, {"acc", 0.85}};
  EXPECT_EQ(RenderBar(line, 87),
            "train   Epoch 0:  44%|████▍     | 210/469 [00:12<00:14, 17.5ba/s, loss=0.412, acc=0.85]");
  // What does not fit is dropped as a whole, starting from the last.
  EXPECT_EQ(RenderBar(line, 76), "train   Epoch 0:  44% 210/469 [00:12<00:14, 17.5ba/s, loss=0.412, acc=0.85]");
  EXPECT_EQ(RenderBar(line, 70), "train   Epoch 0:  44%|█▎ | 210/469 [00:12<00:14, 17.5ba/s, loss=0.412]");
  EXPECT_EQ(RenderBar(line, 64), "train   Epoch 0:  44%|████     | 210/469 [00:12<00:14, 17.5ba/s]");
  EXPECT_EQ(RenderBar(line, 40), "train   Epoch 0:  44% 210/469 [00:12<00:");
  EXPECT_EQ(RenderBar(Line(0, 8, 0), 60), "train   Epoch 0:   0%|                       | 0/8 [00:00<?]");
  EXPECT_EQ(RenderBar(Line(8, 8, 4000), 200),
            absl::StrCat("train   Epoch 0: 100%|", std::string("██████████████████████████████"),
                         "| 8/8 [1:06:40<00:00, 500s/ba]"));
  EXPECT_EQ(RenderBar(Line(12, 0, 4), 60), "train   Epoch 0: 12ba [00:04, 3.00ba/s]");
}

TEST(ProgressLineTest, TheRateCountsOnlyWhatWasDoneMeanwhile) {
  ProgressLine line = Line(110, 210, 10);
  line.done_before = 100;
  line.unit = "sp";
  EXPECT_EQ(RenderPlain(line), "train   Epoch 0: 110/210 (52%) [00:10<01:40, 1.00sp/s]");
}

// A run that a test steps through, and what the bar wrote.
class ProgressBarTest : public ::testing::Test {
 protected:
  ProgressBarTest() {
    options_.fd = open(dir_.Path("out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    state_.clock.batches_per_epoch = 4;
    state_.max_duration = Time::Epochs(2);
    state_.evaluation.label = "eval";
  }
  ~ProgressBarTest() override { close(options_.fd); }

  void Fire(ProgressBar& bar, Event event) { ASSERT_TRUE(bar.Run(event, state_, logger_).ok()); }
  void Step(ProgressBar& bar, absl::Duration duration, double loss) {
    clock_.Advance(duration);
    logger_.Log("loss/train/total", loss);
    state_.clock.previous_timestamp = state_.timestamp;
    state_.timestamp.ToNextBatch(16, 0, duration);
    Fire(bar, Event::kBatchEnd);
  }
  void EndEpoch(ProgressBar& bar) {
    state_.clock.previous_timestamp = state_.timestamp;
    state_.timestamp.ToNextEpoch();
    Fire(bar, Event::kEpochEnd);
  }
  void Evaluate(ProgressBar& bar, int batches) {
    state_.evaluation.timestamp = Timestamp();
    Fire(bar, Event::kEvalStart);
    for (int i = 0; i < batches; ++i) {
      clock_.Advance(absl::Seconds(1));
      Fire(bar, Event::kEvalBatchEnd);
      state_.evaluation.timestamp.ToNextBatch(16, 0, absl::ZeroDuration());
    }
    logger_.Log("metrics/eval/MulticlassAccuracy", 0.875);
    Fire(bar, Event::kEvalEnd);
  }
  std::string Written() { return ReadFile(dir_.Path("out")).value(); }
  std::vector<std::string> Lines() { return absl::StrSplit(Written(), '\n', absl::SkipEmpty()); }

  TempDir dir_;
  ManualClock clock_;
  State state_;
  Logger logger_;
  ProgressBar::Options options_;
};

TEST_F(ProgressBarTest, PlainLinesAreOneAnIntervalAndOneAnEpochAndAnEvaluation) {
  ProgressBar bar(options_, clock_);
  Fire(bar, Event::kFitStart);
  for (int i = 0; i < 4; ++i) Step(bar, absl::Seconds(4), 0.5);
  EndEpoch(bar);
  Evaluate(bar, 2);
  for (int i = 0; i < 4; ++i) Step(bar, absl::Seconds(1), 0.25);
  EndEpoch(bar);
  Fire(bar, Event::kFitEnd);
  EXPECT_THAT(Lines(), ElementsAre("train   Epoch 0: 3/4 (75%) [00:12<00:04, 4.00s/ba, loss=0.5]",
                                   "train   Epoch 0: 4/4 (100%) [00:16<00:00, 4.00s/ba, loss=0.5]",
                                   "eval    Epoch 0: 2ba [00:02, 1.00ba/s, acc=0.875]",
                                   "train   Epoch 1: 4/4 (100%) [00:04<00:00, 1.00ba/s, loss=0.25]"));
}

TEST_F(ProgressBarTest, ALossThatIsNaNIsShown) {
  ProgressBar bar(options_, clock_);
  Fire(bar, Event::kFitStart);
  for (const double loss : {0.5, 0.5, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    Step(bar, absl::Seconds(11), loss);
  EndEpoch(bar);
  const std::vector<std::string> lines = Lines();
  ASSERT_GE(lines.size(), 4u);
  EXPECT_THAT(lines[2], ::testing::HasSubstr("loss=nan]"));
  EXPECT_THAT(lines[3], ::testing::HasSubstr("loss=inf]"));
}

TEST_F(ProgressBarTest, OnATerminalABarIsOneLineRedrawnTenTimesASecondAtMost) {
  options_.in_place = true;
  options_.columns = 81;
  state_.clock.batches_per_epoch = 1000;
  {
    ProgressBar bar(options_, clock_);
    Fire(bar, Event::kFitStart);
    for (int i = 0; i < 999; ++i) Step(bar, absl::Milliseconds(1), 0.5);
    EXPECT_EQ(Lines().size(), 1u);
    const std::vector<std::string> drawings = absl::StrSplit(Written(), '\r', absl::SkipEmpty());
    EXPECT_EQ(drawings.size(), 10u);
    EXPECT_EQ(drawings[1], "train   Epoch 0:  10%|█▍            | 101/1000 [00:00<00:00, 1000ba/s, loss=0.5]\x1b[K");
    Evaluate(bar, 1);
    Step(bar, absl::Milliseconds(1), 0.5);
  }
  ASSERT_EQ(Lines().size(), 3u);
  EXPECT_EQ(Written().back(), '\n');
}

// The launcher is between the bar and the terminal, whose window the user resizes.
TEST_F(ProgressBarTest, TheBarFollowsTheWidthOfATerminalBehindAPipe) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_TRUE(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
  const auto resize = [master](unsigned short columns) {
    const winsize size{.ws_row = 24, .ws_col = columns};
    ASSERT_EQ(ioctl(master, TIOCSWINSZ, &size), 0);
  };
  options_.in_place = true;
  options_.terminal = ptsname(master);
  state_.clock.batches_per_epoch = 1000;
  {
    ProgressBar bar(options_, clock_);
    Fire(bar, Event::kFitStart);
    for (const unsigned short columns : {120, 60, 30, 90}) {
      resize(columns);
      Step(bar, absl::Seconds(1), 0.5);
    }
    State state;
    EXPECT_TRUE(bar.Close(state, logger_).ok());
    EXPECT_EQ(Written().back(), '\n') << "what is said next begins a line of its own";
  }
  std::vector<size_t> widths;
  const std::vector<std::string> drawings = absl::StrSplit(Written(), '\r', absl::SkipEmpty());
  for (const std::string& drawing : drawings) {
    size_t cells = 0;  // UTF-8: counts all but continuation bytes
    for (const char c : drawing.substr(0, drawing.find('\x1b'))) cells += (c & 0xc0) != 0x80 ? 1 : 0;
    widths.push_back(cells);
  }
  EXPECT_THAT(widths, ElementsAre(AllOf(Gt(60u), Le(119u)), 59u, 29u, AllOf(Gt(59u), Le(89u))));
  close(master);
}

TEST_F(ProgressBarTest, ARunInBatchesHasOneBarAndAResumedOneCountsItsOwnRate) {
  state_.max_duration = Time::Batches(10);
  for (int i = 0; i < 5; ++i) state_.timestamp.ToNextBatch(16, 0, absl::Seconds(9));
  ProgressBar bar(options_, clock_);
  Fire(bar, Event::kFitStart);
  for (int i = 0; i < 5; ++i) Step(bar, absl::Seconds(1), 0.5);
  Fire(bar, Event::kFitEnd);
  EXPECT_THAT(Lines(), ElementsAre("train: 10/10 (100%) [00:05<00:00, 1.00ba/s, loss=0.5]"));
}

}  // namespace
}  // namespace composer
