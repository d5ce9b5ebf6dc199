// Tests reading metrics.jsonl: whole, while it grows, cut, replaced, damaged.
// SPDX-License-Identifier: Apache-2.0
#include "views/read/metrics_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"
#include "views/read/flat_json.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Line(int batch, double loss, int generation = 1) {
  return absl::StrCat("{\"time/epoch\":0,\"time/batch\":", batch, ",\"wall\":", 1000 + batch,
                      ".5,\"generation\":", generation, ",\"loss\":", loss, "}\n");
}

class MetricsReaderTest : public ::testing::Test {
 protected:
  void Append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  void Write(const std::string& text) { std::ofstream(path_, std::ios::trunc) << text; }
  std::vector<double> Losses(MetricsReader& reader) {
    EXPECT_TRUE(reader.Poll().ok());
    const MetricSeries* loss = reader.Find("loss");
    return loss == nullptr ? std::vector<double>() : loss->values;
  }
  static std::vector<int64_t> Batches(const MetricsReader& reader) {
    std::vector<int64_t> batches;
    for (const MetricRow& row : reader.rows()) batches.push_back(row.batch);
    return batches;
  }

  TempDir dir_;
  const std::string path_ = dir_.Path("metrics.jsonl");
  MetricsReader reader_{{.path = path_}};
};

TEST_F(MetricsReaderTest, HalfALineWaitsForItsRest) {
  const std::string line = Line(2, 0.25);
  Append(Line(1, 0.5) + line.substr(0, 40));
  EXPECT_THAT(Losses(reader_), ElementsAre(0.5));
  Append(line.substr(40));
  EXPECT_THAT(Losses(reader_), ElementsAre(0.5, 0.25));
  EXPECT_EQ(reader_.rows()[1].wall, 1002.5);
  EXPECT_EQ(reader_.bad_lines(), 0);
}

TEST_F(MetricsReaderTest, ACutFileIsReadAgain) {
  Append(Line(1, 1) + Line(2, 2) + Line(3, 3));
  EXPECT_THAT(Losses(reader_), ElementsAre(1, 2, 3));
  std::filesystem::resize_file(path_, Line(1, 1).size());
  EXPECT_THAT(Losses(reader_), ElementsAre(1));
  Append(Line(2, 20, 2));
  EXPECT_THAT(Losses(reader_), ElementsAre(1, 20));
}

// Between two looks it was cut and has grown beyond its old length.
TEST_F(MetricsReaderTest, ACutThatWasOutgrownIsNoticed) {
  Append(Line(1, 1) + Line(2, 2));
  EXPECT_THAT(Losses(reader_), ElementsAre(1, 2));
  Write(Line(1, 1) + Line(2, 7, 2) + Line(3, 8, 2));
  EXPECT_THAT(Losses(reader_), ElementsAre(1, 7, 8));
}

// Older versions, and other programs, appended repeated steps.
TEST_F(MetricsReaderTest, RepeatedStepsReplaceWhatCameAfterThem) {
  Append(Line(1, 1) + Line(2, 2) + Line(3, 3) + Line(2, 20, 2) + Line(3, 30, 2) + Line(3, 31, 2));
  EXPECT_THAT(Losses(reader_), ElementsAre(1, 20, 30, 31));
  EXPECT_THAT(Batches(reader_), ElementsAre(1, 2, 3, 3));
}

TEST_F(MetricsReaderTest, DamagedLinesAreCountedAndLeftOut) {
  Append("\n{\"time/batch\":1\nnot json\n{\"time/batch\":1,\"loss\":{\"a\":1}}\n{\"loss\":1}\n" + Line(1, 0.5));
  Append(absl::StrCat("{\"x", std::string(3 << 20, 'y'), "\":1}\n", Line(2, 0.25)));
  EXPECT_THAT(Losses(reader_), ElementsAre(0.5, 0.25));
  EXPECT_EQ(reader_.bad_lines(), 5);
}

TEST_F(MetricsReaderTest, OfAKeyThatALineHasTwiceTheLastValueCounts) {
  Append("{\"time/batch\":1,\"loss\":1,\"loss\":2}\n" + Line(2, 3));
  EXPECT_THAT(Losses(reader_), ElementsAre(2, 3));
  EXPECT_THAT(reader_.Find("loss")->rows, ElementsAre(0, 1));
}

TEST_F(MetricsReaderTest, NamesAreUnescapedAndNullIsNaN) {
  Append("{\"time/batch\":1,\"a\\\"b\":null,\"\\u00e4\":2}\n");
  ASSERT_TRUE(reader_.Poll().ok());
  ASSERT_NE(reader_.Find("a\"b"), nullptr);
  EXPECT_TRUE(std::isnan(reader_.Find("a\"b")->values[0]));
  EXPECT_NE(reader_.Find("ä"), nullptr);
}

TEST_F(MetricsReaderTest, OnlyWantedMetricsAreKept) {
  Append("{\"time/batch\":1,\"a/x\":1,\"a/y\":2,\"b\":3}\n");
  MetricsReader reader({.path = path_, .names = {"a/*"}});
  ASSERT_TRUE(reader.Poll().ok());
  EXPECT_EQ(reader.series().size(), 2u);
  EXPECT_EQ(reader.Find("b"), nullptr);
}

TEST_F(MetricsReaderTest, SizesAreBounded) {
  for (int i = 1; i <= 20; ++i) Append(Line(i, i));
  MetricsReader few({.path = path_, .max_points = 10});
  EXPECT_EQ(few.Poll().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(few.Find("loss")->values.size(), 10u);
  Write("{\"time/batch\":1,\"a\":1,\"b\":1,\"c\":1}\n");
  MetricsReader narrow({.path = path_, .max_metrics = 2});
  EXPECT_EQ(narrow.Poll().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(narrow.series().size(), 2u);
}

TEST_F(MetricsReaderTest, AMissingFileIsNotFoundAndAPipeIsRefused) {
  EXPECT_EQ(reader_.Poll().code(), absl::StatusCode::kNotFound);
  MetricsReader folder({.path = dir_.path()});
  EXPECT_EQ(folder.Poll().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(FlatJson, AcceptsOneObjectAndNothingElse) {
  const auto valid = [](absl::string_view line) {
    FlatJson json(line);
    for (JsonMember member; json.Next(member);) {
    }
    return json.valid();
  };
  for (const char* line : {"{}", " { } ", "{\"a\":1}", "{ \"a\" : -1e-5 , \"b\":\"x\\\"}\" }"})
    EXPECT_TRUE(valid(line)) << line;
  for (const char* line : {"", "{", "}", "{}x", "{\"a\"}", "{\"a\":}", "{\"a\":1", "{\"a\":1,}", "{\"a\":[1]}", "{a:1}",
                           "{\"a\":\"x}", "{\"a\":1\"b\":2}"})
    EXPECT_FALSE(valid(line)) << line;
}

}  // namespace
}  // namespace composer
