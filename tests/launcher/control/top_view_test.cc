// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

proto::RankStatus* AddRank(proto::JobStatus& status, int64_t step, const std::string& phase = "training") {
  proto::RankStatus* rank = status.add_ranks();
  rank->set_rank(status.ranks_size() - 1);
  rank->set_pid(100 + rank->rank());
  rank->set_phase(phase);
  rank->set_step(step);
  rank->set_loss(rank->rank() == 0 ? 0.25 : std::nan(""));
  rank->set_data_wait(rank->rank() == 0 ? 0.07 : std::nan(""));
  return rank;
}

TopFrame AFrame(int ranks) {
  TopFrame frame;
  frame.status.set_job("mnist");
  frame.status.set_state("running");
  frame.status.set_world_size(ranks);
  frame.status.set_nodes(1);
  for (int i = 0; i < ranks; ++i) AddRank(frame.status, 50);
  frame.columns = 200;
  return frame;
}

std::vector<std::string> Lines(const TopFrame& frame) { return absl::StrSplit(RenderTop(frame), '\n'); }

TEST(TopViewTest, ShowsWhatIsKnownOfARank) {
  TopFrame frame = AFrame(2);
  frame.processes[0] = {.cpu = 1.5, .resident_bytes = int64_t{3} << 30, .last_line = "saved\033[31m ba40"};
  frame.steps_per_second[0] = 12.25;
  const std::vector<std::string> lines = Lines(frame);
  ASSERT_THAT(lines, SizeIs(8));
  EXPECT_THAT(lines[0], StartsWith("mnist: running"));
  EXPECT_EQ(lines[4],
            "     0      100 training           50     12.2      0.25   7%   1.5   3.0G  saved\\x1b[31m ba40");
  EXPECT_EQ(lines[5], "     1      101 training           50        -         -    -     -      -  ");
  EXPECT_THAT(lines[7], HasSubstr("q quit"));
}

TEST(TopViewTest, MarksRanksThatAreBehindOrSilent) {
  TopFrame frame = AFrame(4);
  frame.status.mutable_ranks(1)->set_step(47);
  frame.status.mutable_ranks(2)->set_heartbeat_age_seconds(6);
  frame.status.mutable_ranks(3)->set_step(48);
  std::vector<char> marks;
  for (int i = 0; i < 4; ++i) marks.push_back(Lines(frame)[4 + i][0]);
  EXPECT_THAT(marks, ElementsAre(' ', '!', '!', ' '));
}

TEST(TopViewTest, NeverHasMoreLinesOrColumnsThanTheTerminal) {
  TopFrame frame = AFrame(300);
  frame.status.set_last_cause("é" + std::string(500, 'x'));
  for (const int rows : {1, 2, 5, 9, 24, 1000}) {
    for (const int columns : {1, 10, 80}) {
      for (const int first : {0, 150, 299, 5000}) {
        frame.rows = rows, frame.columns = columns, frame.first = first;
        const std::vector<std::string> lines = Lines(frame);
        EXPECT_LE(lines.size(), static_cast<size_t>(rows));
        for (const std::string& line : lines) EXPECT_LE(line.size(), static_cast<size_t>(columns) + 1);
      }
    }
  }
  frame.rows = 20, frame.columns = 80, frame.first = 100;
  EXPECT_THAT(RenderTop(frame), HasSubstr("ranks 100 to 112 of 300"));
}

TEST(TopViewTest, CountsRanksOfAllNodesOnce) {
  proto::JobStatus status = AFrame(2).status;
  *status.add_members()->mutable_report()->mutable_ranks() = status.ranks();
  proto::RankStatus other = status.ranks(0);
  other.set_rank(2);
  *status.add_members()->mutable_report()->add_ranks() = other;
  EXPECT_EQ(RanksOf(status), 3);
}

TEST(ParseProcessTimesTest, TheNameMayHaveSpacesAndBrackets) {
  const std::string rest = " S 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0 4 0 999 1000000 2500 18446744073709551615";
  const auto times = ParseProcessTimes("42 (a) b (c))" + rest);
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->ticks, 730);
  EXPECT_EQ(times->resident_pages, 2500);
  for (const char* text : {"", "42 (a", "42 (a) S 1 2", ")))))"}) EXPECT_FALSE(ParseProcessTimes(text).has_value());
}

}  // namespace
}  // namespace composer
