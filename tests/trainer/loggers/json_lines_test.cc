// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/loggers/table_lines.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::vector<std::string> Lines(const std::string& path) {
  return absl::StrSplit(ReadFile(path).value(), '\n', absl::SkipEmpty());
}

absl::Status WriteOne(const std::string& path, const std::vector<MetricValue>& metrics, const Timestamp& now = {}) {
  auto lines = JsonLines::Open(path);
  if (!lines.ok()) return lines.status();
  return (*lines)->Write(MetricRecord{now, metrics});
}

TEST(JsonLinesTest, ARecordIsOneFlatObject) {
  TempDir dir;
  const std::string path = dir.Path("metrics.jsonl");
  Timestamp now;
  now.epoch = 1, now.batch = 12, now.batch_in_epoch = 2, now.sample = 1536;
  now.sample_in_epoch = 256, now.token = 7, now.token_in_epoch = 5;
  const double before = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  ASSERT_TRUE(WriteOne(path, {{"loss/train/total", 0.1}, {"count", 3}}, now).ok());
  ASSERT_EQ(Lines(path).size(), 1u);
  const Json json = Json::parse(Lines(path)[0]);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys,
              ElementsAre("time/epoch", "time/batch", "time/batch_in_epoch", "time/sample", "time/sample_in_epoch",
                          "time/token", "time/token_in_epoch", "wall", "generation", "loss/train/total", "count"));
  EXPECT_EQ(json["time/epoch"], 1);
  EXPECT_EQ(json["time/batch"], 12);
  EXPECT_EQ(json["time/batch_in_epoch"], 2);
  EXPECT_EQ(json["time/sample"], 1536);
  EXPECT_EQ(json["time/sample_in_epoch"], 256);
  EXPECT_EQ(json["time/token_in_epoch"], 5);
  EXPECT_EQ(json["loss/train/total"].get<double>(), 0.1);
  EXPECT_NEAR(json["wall"].get<double>(), before, 10);
}

TEST(TableLinesTest, ATableIsOneObjectAndTheFileComesWithTheFirst) {
  TempDir dir;
  const std::string path = dir.Path("tables.jsonl");
  const std::vector<std::string> columns = {"prompt", "generation"};
  const std::vector<std::vector<std::string>> rows = {{"a \"b\"\n", "\xFF"}, {"", "c"}};
  Timestamp now;
  now.epoch = 1, now.batch = 12, now.sample = 96;
  for (int start = 0; start < 2; ++start) {  // a second start appends to the file
    TableLines tables(path);
    ASSERT_TRUE(tables.Write(MetricRecord{now, {}}).ok());
    EXPECT_EQ(PathExists(path), start == 1);
    ASSERT_TRUE(tables.WriteTable({now, "generations", columns, rows}).ok());
  }
  ASSERT_EQ(Lines(path).size(), 2u);
  for (const std::string& line : Lines(path)) {
    const Json json = Json::parse(line);
    EXPECT_EQ(json["time/epoch"], 1);
    EXPECT_EQ(json["time/batch"], 12);
    EXPECT_EQ(json["time/sample"], 96);
    EXPECT_EQ(json["table"], "generations");
    EXPECT_EQ(json["columns"].dump(), R"(["prompt","generation"])");
    EXPECT_EQ(json["data"][0][0], "a \"b\"\n");
    EXPECT_EQ(json["data"][0][1], "\xEF\xBF\xBD");
    EXPECT_EQ(json["data"][1][1], "c");
  }
  EXPECT_FALSE(TableLines(dir.Path("no/such/folder")).WriteTable({now, "t", columns, rows}).ok());
}

TEST(JsonLinesTest, TokensAreWrittenWhenThereAreAny) {
  TempDir dir;
  Timestamp now;
  now.token = 4096;
  ASSERT_TRUE(WriteOne(dir.Path("m"), {{"a", 1}}, now).ok());
  EXPECT_EQ(Json::parse(Lines(dir.Path("m"))[0])["time/token"], 4096);
}

TEST(JsonLinesTest, NumbersReadBackExactlyAndWhatJsonLacksIsNull) {
  TempDir dir;
  const double values[] = {1.0 / 3, 1e-300, 1.7976931348623157e308, -0.0, 123456789012345678.0, 1e22};
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<MetricValue> metrics;
  const std::string names = "abcdef";
  for (size_t i = 0; i < names.size(); ++i) metrics.push_back({absl::string_view(names).substr(i, 1), values[i]});
  metrics.push_back({"nan", std::numeric_limits<double>::quiet_NaN()});
  metrics.push_back({"inf", -kInf});
  ASSERT_TRUE(WriteOne(dir.Path("m"), metrics).ok());
  const Json json = Json::parse(Lines(dir.Path("m"))[0]);
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(json[names.substr(i, 1)].get<double>(), values[i]);
  EXPECT_TRUE(json.contains("nan") && json["nan"].is_null());
  EXPECT_TRUE(json.contains("inf") && json["inf"].is_null());
}

TEST(JsonLinesTest, NamesAreEscaped) {
  TempDir dir;
  const std::string name = "metrics/my \"eval\"\\set\n\x01/é";
  ASSERT_TRUE(WriteOne(dir.Path("m"), {{name, 2}}).ok());
  EXPECT_EQ(Json::parse(Lines(dir.Path("m"))[0])[name], 2);
}

TEST(JsonLinesTest, AnEarlierRunsLinesStayAndATornOneIsEnded) {
  TempDir dir;
  const std::string path = dir.Path("m");
  ASSERT_TRUE(WriteOne(path, {{"a", 1}}).ok());
  ASSERT_TRUE(WriteOne(path, {{"a", 2}}).ok());
  const std::string whole = ReadFile(path).value();
  ASSERT_TRUE(AtomicWriteFile(path, whole + "{\"time/ep").ok());
  ASSERT_TRUE(WriteOne(path, {{"a", 3}}).ok());
  const auto lines = Lines(path);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(Json::parse(lines[1])["a"], 2);
  EXPECT_EQ(lines[2], "{\"time/ep");
  EXPECT_EQ(Json::parse(lines[3])["a"], 3);
}

TEST(JsonLinesTest, FailuresNameTheFile) {
  TempDir dir;
  const absl::Status missing = WriteOne(dir.Path("no/such/folder"), {{"a", 1}});
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no/such/folder"));
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  const absl::Status full = WriteOne("/dev/full", {{"a", 1}});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("/dev/full"));
}

}  // namespace
}  // namespace composer
