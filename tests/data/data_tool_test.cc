// SPDX-License-Identifier: Apache-2.0
#include "data/tools/data_tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "data/mds/reader.h"
#include "data/tools/json_to_mds.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DataToolTest : public ::testing::Test {
 protected:
  int Run(const std::vector<std::string>& args) {
    out_.str("");
    err_.str("");
    return RunDataTool(args, nullptr, out_, err_);
  }
  std::string Source(const std::string& lines) {
    EXPECT_TRUE(AtomicWriteFile(folder_.Path("in.jsonl"), lines).ok());
    return folder_.Path("in.jsonl");
  }

  TempDir folder_;
  std::ostringstream out_, err_;
};

TEST_F(DataToolTest, WhatIsWrittenIsReadInspectedAndVerified) {
  const std::string source = Source(
      "{\"text\": \"a\", \"label\": 1, \"ids\": [1, 2], \"score\": 0.5, \"meta\": {\"k\": null}}\n\n"
      "{\"text\": \"\\u00e9\", \"label\": -2, \"ids\": [3], \"score\": 2, \"meta\": [], \"more\": 1}\r\n");
  const std::string set = folder_.Path("set");
  ASSERT_EQ(Run({"write", source, set, "--compression", "gz", "--hashes", "sha1", "--size-limit", "100000"}), 0)
      << err_.str();
  EXPECT_EQ(out_.str(), set + ": 2 samples\n");
  EXPECT_EQ(Run({"inspect", set}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("ndarray:int64"));
  EXPECT_EQ(Run({"verify", "--threads", "2", set}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("  valid  2 samples"));
  const auto reader = MdsReader::Create(*ReadMdsIndex(set), LocalShards(set, "sha1")).value();
  MdsSample sample;
  ASSERT_TRUE(reader->Read(1, sample).ok());
  ASSERT_EQ(reader->columns()[4].name, "text");
  EXPECT_EQ(sample.columns[4], "\xc3\xa9");
  EXPECT_EQ(sample.columns[2], "[]");
  EXPECT_EQ(Run({"write", source, set}), 64) << "the folder has an index";
}

TEST_F(DataToolTest, ADamagedShardIsNamed) {
  const std::string set = folder_.Path("set");
  ASSERT_EQ(Run({"write", Source("{\"text\": \"abcdef\"}\n"), set, "--hashes", "sha1"}), 0) << err_.str();
  const std::string shard = set + "/shard.00000.mds";
  std::string bytes = ReadFile(shard).value();
  bytes.back() ^= 1;
  ASSERT_TRUE(AtomicWriteFile(shard, bytes).ok());
  EXPECT_EQ(Run({"verify", set}), 70);
  EXPECT_THAT(err_.str(), HasSubstr("shard.00000.mds"));
}

TEST_F(DataToolTest, FoldersAreMerged) {
  const std::string source = Source("{\"x\": 1}\n");
  ASSERT_EQ(Run({"write", source, folder_.Path("all/a")}), 0) << err_.str();
  ASSERT_EQ(Run({"write", source, folder_.Path("all/b")}), 0) << err_.str();
  EXPECT_EQ(Run({"merge", folder_.Path("all")}), 0) << err_.str();
  EXPECT_EQ(ReadMdsIndex(folder_.Path("all")).value().shards.size(), 2u);
}

TEST_F(DataToolTest, MistakesNameLineAndKey) {
  const auto error = [&](const std::string& lines, const std::string& columns) {
    EXPECT_EQ(Run({"write", Source(lines), folder_.Path("bad"), "--columns", columns}), 64);
    return err_.str();
  };
  EXPECT_THAT(error("{\"x\": 1}\n{\"y\": 1}\n", "x:int"), HasSubstr("line 2, key `x`: is missing"));
  EXPECT_THAT(error("{\"x\": 300}\n", "x:uint8"), HasSubstr("line 1, key `x`: `300` does not fit the encoding uint8"));
  EXPECT_THAT(error("{\"x\": -1}\n", "x:uint64"), HasSubstr("does not fit"));
  EXPECT_THAT(error("[]\n", "x:int"), HasSubstr("line 1: this is not a JSON object"));
  EXPECT_THAT(error("", "x:int"), HasSubstr("there is no sample"));
  EXPECT_THAT(error("{}\n", "x"), HasSubstr("`x` has no encoding"));
  EXPECT_THAT(error("{}\n", "x:pkl"), HasSubstr("pkl"));
  EXPECT_EQ(Run({"wirte"}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean `write`?"));
  EXPECT_EQ(Run({"verify", "--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("--threads"));
  EXPECT_EQ(Run({"inspect"}), 64);
}

TEST(GuessEncoding, IsTheUsualOne) {
  std::vector<std::string> guesses;
  for (const char* value : {"\"a\"", "1", "true", "1.5", "[1, 2]", "[1, 2.5]", "[]", "{}", "null"})
    guesses.push_back(GuessEncoding(nlohmann::json::parse(value)));
  EXPECT_THAT(guesses,
              ElementsAre("str", "int", "int", "float64", "ndarray:int64", "ndarray:float32", "json", "json", "json"));
}

}  // namespace
}  // namespace composer
