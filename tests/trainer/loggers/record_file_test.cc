// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/record_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/loggers/json_lines.h"
#include "trainer/loggers/table_lines.h"

namespace composer {
namespace {

std::string RecordLine(int64_t epoch, int64_t batch, const std::string& rest = "\"a\":1") {
  return absl::StrCat("{\"time/epoch\":", epoch, ",\"time/batch\":", batch, ",", rest, "}\n");
}

RunStart StartAt(int64_t epoch, int64_t batch, bool resumed = true) {
  RunStart start{.resumed = resumed};
  start.timestamp.epoch = epoch, start.timestamp.batch = batch;
  return start;
}

class RewindRecordsTest : public ::testing::Test {
 protected:
  std::string Rewound(const std::string& before, const RunStart& start, int64_t launch = 1) {
    EXPECT_TRUE(AtomicWriteFile(path_, before).ok());
    EXPECT_TRUE(RewindRecords(path_, start, launch).ok());
    return ReadFile(path_).value_or("(no file)");
  }
  TempDir dir_;
  const std::string path_ = dir_.Path("metrics.jsonl");
};

TEST_F(RewindRecordsTest, WhatIsDoneAgainIsCutOff) {
  const std::string long_line = RecordLine(0, 2, absl::StrCat("\"", std::string(200'000, 'x'), "\":1"));  // > a block
  const struct {
    std::string before;
    RunStart start;
    std::string after;
  } kCases[] = {
      {RecordLine(0, 1) + RecordLine(0, 2) + RecordLine(0, 3), StartAt(0, 2), RecordLine(0, 1) + RecordLine(0, 2)},
      {RecordLine(0, 1) + RecordLine(0, 2), StartAt(0, 2), RecordLine(0, 1) + RecordLine(0, 2)},
      {RecordLine(0, 1) + RecordLine(0, 2), StartAt(0, 9), RecordLine(0, 1) + RecordLine(0, 2)},
      {RecordLine(0, 1) + RecordLine(0, 2), StartAt(0, 0), ""},
      // Saved with the last batch of epoch 0, before the epoch's end and its evaluation, which are repeated.
      {RecordLine(0, 8) + RecordLine(1, 8) + RecordLine(1, 9), StartAt(0, 8), RecordLine(0, 8)},
      {RecordLine(0, 8) + RecordLine(1, 8) + RecordLine(1, 9), StartAt(1, 8), RecordLine(0, 8) + RecordLine(1, 8)},
      // A power cut tore this line.
      {RecordLine(0, 1) + "{\"time/epoch\":0,\"time/ba", StartAt(0, 5), RecordLine(0, 1)},
      {RecordLine(0, 1) + "{\"time/epoch\":0,\"time/batch\":2,\"a\":", StartAt(0, 5), RecordLine(0, 1)},
      {RecordLine(0, 1) + "{\"time/epoch\":0,\"time/ba\n" + RecordLine(0, 2) + RecordLine(0, 3), StartAt(0, 2),
       RecordLine(0, 1) + "{\"time/epoch\":0,\"time/ba\n" + RecordLine(0, 2)},
      {RecordLine(0, 1) + long_line + RecordLine(0, 3) + long_line, StartAt(0, 2),
       RecordLine(0, 1) + long_line + RecordLine(0, 3) + long_line},
      {RecordLine(0, 1) + long_line + RecordLine(0, 3), StartAt(0, 1), RecordLine(0, 1)},
      // Older versions appended each restart's lines to the others': only the newest pass is rewound.
      {RecordLine(0, 1) + RecordLine(0, 4) + RecordLine(0, 2) + RecordLine(0, 3), StartAt(0, 2),
       RecordLine(0, 1) + RecordLine(0, 4) + RecordLine(0, 2)},
      // This is not a file of records.
      {"my notes\nof yesterday\n", StartAt(0, 2), "my notes\nof yesterday\n"},
      {"\n", StartAt(0, 2), "\n"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Rewound(c.before, c.start), c.after) << c.before.substr(0, 200);
}

TEST_F(RewindRecordsTest, ManyLinesOfAllLengthsAreCutAtTheRightOne) {
  std::string text;
  std::vector<size_t> ends;
  for (int batch = 1; batch <= 3000; ++batch) {
    text += RecordLine(0, batch, absl::StrCat("\"", std::string(static_cast<size_t>(batch * 7 % 131), 'y'), "\":2"));
    ends.push_back(text.size());
  }
  for (const int batch : {1, 2, 700, 1499, 2999, 3000}) {
    EXPECT_EQ(Rewound(text, StartAt(0, batch)), text.substr(0, ends[static_cast<size_t>(batch - 1)])) << batch;
  }
}

TEST_F(RewindRecordsTest, ARunThatBeginsAnewKeepsTheRecordsOfOtherLaunches) {
  const std::string of_first = RecordLine(0, 1, "\"wall\":1.500,\"launch\":1,\"generation\":1,\"a\":1");
  const std::string of_second = RecordLine(0, 1, "\"wall\":2.500,\"launch\":2,\"generation\":1,\"a\":1");
  EXPECT_EQ(Rewound(of_first, StartAt(0, 0, /*resumed=*/false), /*launch=*/2), "(no file)");
  EXPECT_EQ(*ReadFile(dir_.Path("metrics-1.jsonl")), of_first);
  EXPECT_EQ(Rewound(of_second, StartAt(0, 0, false), 2), "") << "a restart before the first checkpoint";
  EXPECT_EQ(Rewound(of_second, StartAt(0, 0, false), 3), "(no file)");
  EXPECT_EQ(*ReadFile(dir_.Path("metrics-2.jsonl")), of_second);
  EXPECT_EQ(Rewound(RecordLine(0, 1), StartAt(0, 5, false), 0), "(no file)")
      << "nobody counts, load_path of another run";
  EXPECT_EQ(*ReadFile(dir_.Path("metrics-3.jsonl")), RecordLine(0, 1));
  EXPECT_FALSE(PathExists(dir_.Path("metrics-4.jsonl")));
}

TEST_F(RewindRecordsTest, WhatIsNotARegularFileIsLeftAlone) {
  EXPECT_TRUE(RewindRecords(path_, StartAt(0, 1), 1).ok());
  EXPECT_FALSE(PathExists(path_));
  EXPECT_TRUE(RewindRecords("/dev/null", StartAt(0, 1, false), 1).ok());
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(RewindRecords(path_, StartAt(0, 1), 1).ok());
}

TEST(ReadRecordsTest, LinesOfOverAMebibyteAreLeftOut) {
  TempDir dir;
  const std::string path = dir.Path("metrics.jsonl");
  const auto of_size = [](int64_t batch, size_t size) {
    const size_t others = RecordLine(0, batch, "\"\":1").size() - 1;
    return RecordLine(0, batch, absl::StrCat("\"", std::string(size - others, 'x'), "\":1"));
  };
  const std::string largest = of_size(2, 1 << 20), too_large = of_size(3, (1 << 20) + 1), endless = of_size(4, 5 << 20);
  const std::string text = absl::StrCat(RecordLine(0, 1), largest, too_large, endless, RecordLine(0, 5), endless);
  ASSERT_TRUE(AtomicWriteFile(path, text.substr(0, text.size() - 1)).ok());
  std::vector<std::string> taken;
  Timestamp last;
  last.batch = 9;
  ASSERT_TRUE(ReadRecords(path, 0, last, [&](absl::string_view line) { taken.emplace_back(line); }).ok());
  EXPECT_EQ(taken.size(), 3);
  for (const std::string& line : {RecordLine(0, 1), largest, RecordLine(0, 5)}) {
    EXPECT_TRUE(absl::c_linear_search(taken, line.substr(0, line.size() - 1)));
  }
}

TEST(RecordFilesTest, ARestartWritesEachStepOnce) {
  TempDir dir;
  const std::vector<MetricValue> metrics = {{"loss/train/total", 0.5}};
  const std::vector<std::string> columns = {"a"};
  const std::vector<std::vector<std::string>> rows = {{"b"}};
  for (int64_t generation = 1; generation <= 2; ++generation) {
    const RecordOrigin origin{.launch = 3, .generation = generation};
    auto lines = JsonLines::Open(dir.Path("metrics.jsonl"), origin);
    TableLines tables(dir.Path("tables.jsonl"), origin);
    const RunStart start = generation == 1 ? StartAt(0, 0, false) : StartAt(0, 2);
    ASSERT_TRUE((*lines)->Start(start).ok());
    ASSERT_TRUE(tables.Start(start).ok());
    for (int64_t batch = start.timestamp.batch + 1; batch <= 4; ++batch) {
      Timestamp now;
      now.batch = batch;
      ASSERT_TRUE((*lines)->Write({now, metrics}).ok());
      ASSERT_TRUE(tables.WriteTable({now, "t", columns, rows}).ok());
    }
  }
  for (const char* name : {"metrics.jsonl", "tables.jsonl"}) {
    const std::string text = *ReadFile(dir.Path(name));
    for (int batch = 1; batch <= 4; ++batch) {
      const std::string time = absl::StrCat("\"time/batch\":", batch, ",");
      EXPECT_EQ(text.find(time), text.rfind(time)) << name << "\n" << text;
      const std::string line = text.substr(text.find(time), text.find('\n', text.find(time)) - text.find(time));
      EXPECT_THAT(line, ::testing::HasSubstr(absl::StrCat("\"launch\":3,\"generation\":", batch <= 2 ? 1 : 2, ",")));
    }
  }
}

}  // namespace
}  // namespace composer
