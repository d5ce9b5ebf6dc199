// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/png.h"
#include "tests/support/temp_dir.h"
#include "trainer/loggers/crc32c.h"
#include "trainer/loggers/record_file.h"
#include "trainer/loggers/tensorboard_events.h"
#include "trainer/loggers/tensorboard_logger.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Returns the data of every record, and checks lengths and checksums.
std::vector<std::string> Records(absl::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    EXPECT_GE(file.size(), 16u);
    const uint64_t length = LittleEndian(file.substr(0, 8));
    EXPECT_EQ(LittleEndian(file.substr(8, 4)), MaskedCrc32c(file.substr(0, 8)));
    const absl::string_view data = file.substr(12, length);
    EXPECT_EQ(LittleEndian(file.substr(12 + length, 4)), MaskedCrc32c(data));
    records.emplace_back(data);
    file.remove_prefix(16 + length);
  }
  return records;
}

// The fields of a message: numbers as they are, everything else as bytes.
struct Message {
  std::multimap<int, uint64_t> numbers;
  std::multimap<int, std::string> bytes;

  const std::string& at(int field) const { return bytes.find(field)->second; }
  double number(int field) const { return std::bit_cast<double>(numbers.find(field)->second); }
};
Message Parse(absl::string_view text) {
  Message message;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(text[0]);
      text.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (!text.empty()) {
    const uint64_t tag = varint();
    const int field = static_cast<int>(tag >> 3);
    if ((tag & 7) == 0) {
      message.numbers.emplace(field, varint());
    } else if ((tag & 7) == 2) {
      const uint64_t size = varint();
      message.bytes.emplace(field, std::string(text.substr(0, size)));
      text.remove_prefix(size);
    } else {
      const size_t size = (tag & 7) == 1 ? 8 : 4;
      message.numbers.emplace(field, LittleEndian(text.substr(0, size)));
      text.remove_prefix(size);
    }
  }
  return message;
}

// Returns (tag, value) of an event's scalars.
std::vector<std::pair<std::string, float>> Scalars(const Message& event) {
  std::vector<std::pair<std::string, float>> scalars;
  const Message summary = Parse(event.at(5));
  for (const auto& [field, bytes] : summary.bytes) {
    const Message value = Parse(bytes);
    if (value.numbers.count(2) == 0) continue;
    scalars.emplace_back(value.at(1), std::bit_cast<float>(static_cast<uint32_t>(value.numbers.find(2)->second)));
  }
  return scalars;
}

TEST(Crc32cTest, KnownValues) {
  // These values are from RFC 3720, B.4.
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(TensorBoardEventsTest, ARecordIsFramed) {
  const std::string record = TensorBoardRecord("abc");
  EXPECT_EQ(record.size(), 19u);
  EXPECT_THAT(Records(record), ElementsAre("abc"));
  EXPECT_TRUE(Records("").empty());
}

TEST(TensorBoardEventsTest, ScalarsHaveTagStepAndTime) {
  const std::vector<MetricValue> metrics = {{"loss/train/total", 0.5}, {"lr", -1e-5}};
  const Message event = Parse(ScalarsEvent({absl::FromUnixMillis(1'700'000'000'500), (int64_t{1} << 40) + 3}, metrics));
  EXPECT_DOUBLE_EQ(event.number(1), 1'700'000'000.5);
  EXPECT_EQ(event.numbers.find(2)->second, (uint64_t{1} << 40) + 3);
  EXPECT_THAT(Scalars(event), ElementsAre(std::pair("loss/train/total", 0.5F), std::pair("lr", -1e-5F)));
}

TEST(TensorBoardEventsTest, TextIsATensorForTheTextPlugin) {
  const Message event = Parse(TextEvent({absl::UnixEpoch(), 0}, "hyperparameters", "| a |"));
  const Message value = Parse(Parse(event.at(5)).at(1));
  EXPECT_EQ(value.at(1), "hyperparameters");
  EXPECT_EQ(Parse(Parse(value.at(9)).at(1)).at(1), "text");
  const Message tensor = Parse(value.at(8));
  EXPECT_EQ(tensor.numbers.find(1)->second, 7u);  // DT_STRING
  EXPECT_EQ(tensor.at(8), "| a |");
  EXPECT_EQ(Parse(Parse(tensor.at(2)).at(2)).numbers.find(1)->second, 1u);
}

TEST(TensorBoardEventsTest, ATableEscapesWhatWouldEndACell) {
  const std::vector<std::string> columns = {"prompt", "generation"};
  const std::vector<std::vector<std::string>> rows = {{"a|b\nc", "<i>*x*"},
                                                      {"na\xC3\xAFve \xF0\x9F\x98\x80", "\xFF\x01\xC3|\xED\xA0\x80"}};
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(TableMarkdown({Timestamp(), "generations", columns, rows}),
            "| prompt | generation |\n|---|---|\n| a&#124;b<br>c | &#60;i>&#42;x&#42; |\n| na\xC3\xAFve "
            "\xF0\x9F\x98\x80 | " +
                bad + bad + bad + "&#124;" + bad + bad + bad + " |\n");
  EXPECT_EQ(HyperparametersMarkdown({{"a", "x|y\nz"}, {"b", "1"}}),
            "| name | value |\n|---|---|\n| a | x\\|y z |\n| b | 1 |\n");
}

class TensorBoardLoggerTest : public ::testing::Test {
 protected:
  TensorBoardLoggerTest() : clock_(absl::FromUnixSeconds(1'700'000'000)) {}
  TensorBoardLogger Make(int64_t flush_interval = 100) {
    return TensorBoardLogger({dir_.Path("tb"), "run", flush_interval}, clock_);
  }
  absl::Status Write(TensorBoardLogger& logger, int64_t batch, const char* name = "loss/train/total") {
    Timestamp now;
    now.batch = batch;
    const std::vector<MetricValue> metrics = {{name, static_cast<double>(batch)}};
    return logger.Write({now, metrics});
  }
  std::vector<std::string> Files() {
    return IsDirectory(dir_.Path("tb")) ? ListDir(dir_.Path("tb")).value() : std::vector<std::string>();
  }
  std::vector<Message> Events(size_t file = 0) {
    std::vector<Message> events;
    for (const std::string& record : Records(ReadFile(JoinPath(dir_.Path("tb"), Files()[file])).value()))
      events.push_back(Parse(record));
    return events;
  }
  TempDir dir_;
  ManualClock clock_;
};

TEST_F(TensorBoardLoggerTest, AFileBeginsWithItsVersionAndTheStepItGoesOnFrom) {
  TensorBoardLogger logger = Make();
  ASSERT_TRUE(logger.WriteHyperparameters({{"lr", "0.5"}, {"name", "mlp"}}).ok());
  ASSERT_TRUE(Write(logger, 41).ok());
  ASSERT_TRUE(logger.Close().ok());
  ASSERT_EQ(Files().size(), 1u);
  EXPECT_THAT(Files()[0], StartsWith("events.out.tfevents.1700000000."));
  EXPECT_TRUE(absl::EndsWith(Files()[0], absl::StrCat(".", getpid())));
  const auto events = Events();
  ASSERT_EQ(events.size(), 6u);  // version, start, text, hparams, scalar, end
  EXPECT_EQ(events[0].at(3), "brain.Event:2");
  EXPECT_EQ(events[1].numbers.find(2)->second, 41u);
  EXPECT_EQ(Parse(events[1].at(7)).numbers.find(1)->second, 1u);  // SessionLog.START
  EXPECT_THAT(events[2].at(5), HasSubstr("| lr | 0.5 |"));
  EXPECT_THAT(events[3].at(5), HasSubstr("_hparams_/session_start_info"));
  EXPECT_THAT(Scalars(events[4]), ElementsAre(std::pair("loss/train/total", 41.0F)));
  EXPECT_THAT(events[5].at(5), HasSubstr("_hparams_/session_end_info"));
}

TEST_F(TensorBoardLoggerTest, WritesEveryIntervalEveryTenSecondsAndAfterAnEvaluation) {
  TensorBoardLogger logger = Make(/*flush_interval=*/5);
  const auto written = [&] { return Files().empty() ? 0 : Events().size() - 2; };
  for (int64_t batch = 1; batch <= 4; ++batch) ASSERT_TRUE(Write(logger, batch).ok());
  EXPECT_EQ(written(), 0u);
  ASSERT_TRUE(Write(logger, 5).ok());
  EXPECT_EQ(written(), 5u);
  ASSERT_TRUE(Write(logger, 6).ok());
  EXPECT_EQ(written(), 5u);
  ASSERT_TRUE(Write(logger, 6, "metrics/eval/CrossEntropy").ok());
  EXPECT_EQ(written(), 7u);
  clock_.Advance(absl::Seconds(10));
  ASSERT_TRUE(Write(logger, 7).ok());
  EXPECT_EQ(written(), 8u);
}

TEST_F(TensorBoardLoggerTest, ASecondLoggerOfTheSameSecondHasAFileOfItsOwn) {
  TensorBoardLogger first = Make(), second = Make();
  ASSERT_TRUE(Write(first, 1).ok() && Write(second, 1).ok());
  ASSERT_TRUE(first.Close().ok() && second.Close().ok());
  EXPECT_EQ(Files().size(), 2u);
  EXPECT_EQ(Events(0).size(), Events(1).size());
}

// A record as metrics.jsonl has it and as the logger is given it; the value says which attempt made it.
struct Made {
  int64_t epoch, batch;
  const char* name;
  double value;
};

class RestartedTensorBoardTest : public TensorBoardLoggerTest {
 protected:
  // Starts at (epoch, batch), writes the records to both places, and dies; only what was due is in the event file.
  void Attempt(bool resumed, int64_t epoch, int64_t batch, int64_t flush_interval, const std::vector<Made>& records) {
    RunStart start{.timestamp = {}, .resumed = resumed};
    start.timestamp.epoch = epoch, start.timestamp.batch = batch;
    ASSERT_TRUE(RewindRecords(jsonl_, start, launch_).ok());
    TensorBoardLogger logger({dir_.Path("tb"), "run", flush_interval, jsonl_}, clock_);
    ASSERT_TRUE(logger.Start(start).ok());
    std::ofstream lines(jsonl_, std::ios::app);
    for (const Made& made : records) {
      Timestamp now;
      now.epoch = made.epoch, now.batch = made.batch;
      const std::vector<MetricValue> metrics = {{made.name, made.value}};
      ASSERT_TRUE(logger.Write({now, metrics}).ok());
      lines << "{\"time/epoch\":" << made.epoch << ",\"time/batch\":" << made.batch << ",\"launch\":" << launch_
            << ",\"wall\":5,\"" << made.name << "\":" << made.value << "}\n";
    }
    clock_.Advance(absl::Milliseconds(10));
  }
  // The points of all files as TensorBoard reads them: a restart drops the steps from its own on.
  std::vector<std::string> Points() {
    std::vector<std::pair<uint64_t, std::string>> points;
    for (size_t file = 0; file < Files().size(); ++file) {
      for (const Message& event : Events(file)) {
        const auto step = event.numbers.count(2) > 0 ? event.numbers.find(2)->second : 0;
        if (event.bytes.count(7) > 0) std::erase_if(points, [&](const auto& point) { return point.first >= step; });
        if (event.bytes.count(5) == 0) continue;
        for (const auto& [tag, value] : Scalars(event)) points.emplace_back(step, absl::StrCat(step, tag, value));
      }
    }
    std::vector<std::string> texts;
    for (const auto& point : points) texts.push_back(point.second);
    return texts;
  }
  const std::string jsonl_ = dir_.Path("metrics.jsonl");
  int64_t launch_ = 1;
};

TEST_F(RestartedTensorBoardTest, WhatIsDoneAgainIsCutOff) {
  Attempt(false, 0, 0, 1, {{0, 1, "a", 1}, {0, 2, "a", 1}, {1, 2, "e", 1}, {1, 3, "a", 1}});
  Attempt(true, 0, 2, 1, {{1, 2, "e", 2}, {1, 3, "a", 2}});  // saved before the end of its epoch
  EXPECT_THAT(Points(), ElementsAre("1a1", "2a1", "2e2", "3a2"));
  Attempt(true, 1, 2, 1, {{1, 3, "a", 3}});
  EXPECT_THAT(Points(), ElementsAre("1a1", "2a1", "2e2", "3a3"));
}

TEST_F(RestartedTensorBoardTest, WhatAKillTookComesFromTheRecords) {
  Attempt(false, 0, 0, 2, {{0, 1, "a", 1}, {0, 2, "a", 1}, {0, 2, "b", 1}, {0, 3, "a", 1}});
  EXPECT_THAT(Points(), ElementsAre("1a1", "2a1"));
  Attempt(true, 0, 3, 100, {{0, 4, "a", 2}});
  EXPECT_THAT(Points(), ElementsAre("1a1", "2a1", "2b1", "3a1"));
  Attempt(true, 0, 4, 1, {{0, 5, "a", 3}});
  EXPECT_THAT(Points(), ElementsAre("1a1", "2a1", "2b1", "3a1", "4a2", "5a3"));
}

TEST_F(RestartedTensorBoardTest, ANewLifeDropsTheOldOneAtOnce) {
  Attempt(false, 0, 0, 1, {{0, 1, "a", 1}, {0, 2, "a", 1}, {0, 3, "a", 1}});
  launch_ = 2;
  Attempt(false, 0, 0, 100, {{0, 1, "a", 2}, {0, 2, "a", 2}});
  EXPECT_TRUE(Points().empty());
  Attempt(true, 0, 2, 1, {{0, 3, "a", 3}});
  EXPECT_THAT(Points(), ElementsAre("1a2", "2a2", "3a3"));
}

TEST_F(RestartedTensorBoardTest, ATornEventIsCutOffAndFilesSortByTheirStarts) {
  Attempt(false, 0, 0, 1, {{0, 1, "a", 1}});
  clock_.Advance(-absl::Hours(1));
  const std::string first = JoinPath(dir_.Path("tb"), Files()[0]);
  const std::string whole = ReadFile(first).value();
  ASSERT_TRUE(AtomicWriteFile(first, whole + whole.substr(0, 20)).ok());
  Attempt(true, 0, 1, 1, {{0, 2, "a", 2}});
  EXPECT_THAT(Points(), ElementsAre("1a1", "2a2"));
}

TEST_F(TensorBoardLoggerTest, ImagesAreOneValueOfPngs) {
  TensorBoardLogger logger = Make();
  const std::vector<Image> images(3, Image{2, 4, 1, std::vector<uint8_t>(8, 7)});
  ASSERT_TRUE(logger.WriteImages({Timestamp(), "Images/Train", images}).ok());
  const auto events = Events();
  ASSERT_EQ(events.size(), 3u);
  const Message value = Parse(Parse(events[2].at(5)).at(1));
  EXPECT_EQ(value.at(1), "Images/Train");
  EXPECT_EQ(Parse(Parse(value.at(9)).at(1)).at(1), "images");
  const Message tensor = Parse(value.at(8));
  ASSERT_EQ(tensor.bytes.count(8), 5u);
  auto text = tensor.bytes.find(8);
  EXPECT_EQ(text->second, "4");
  EXPECT_EQ((++text)->second, "2");
  EXPECT_EQ((++text)->second, EncodePng({2, 4, 1, images[0].pixels}).value());
}

TEST_F(TensorBoardLoggerTest, AFailureNamesThePathAndLaterRecordsMakeAWholeFile) {
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("tb"), "a file where the folder should be").ok());
  TensorBoardLogger logger = Make(/*flush_interval=*/1);
  const absl::Status failed = Write(logger, 1);
  EXPECT_FALSE(failed.ok());
  EXPECT_THAT(std::string(failed.message()), HasSubstr(dir_.Path("tb")));
  ASSERT_TRUE(RemoveFile(dir_.Path("tb")).ok());
  ASSERT_TRUE(Write(logger, 2).ok());
  const auto events = Events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].at(3), "brain.Event:2");
  EXPECT_THAT(Scalars(events[2]), ElementsAre(std::pair("loss/train/total", 2.0F)));
}

}  // namespace
}  // namespace composer
