// SPDX-License-Identifier: Apache-2.0
#include "data/tools/data_tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/file.h"
#include "data/mds/inspect.h"
#include "data/mds/reader.h"
#include "data/tools/json_values.h"
#include "storage/memory_store.h"
#include "tests/support/fault_store.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tokenizer that has a token for each word.
absl::StatusOr<TokenCounter> CountWords(const std::string& path) {
  if (path != "words") return absl::NotFoundError(path);
  return [](absl::string_view text) -> absl::StatusOr<int64_t> {
    if (text == "bad") return absl::InvalidArgumentError("not UTF-8");
    return std::count(text.begin(), text.end(), ' ') + 1;
  };
}

class DataToolTest : public ::testing::Test {
 protected:
  int Run(const std::vector<std::string>& args) {
    out_.str("");
    err_.str("");
    return RunDataTool(args, open_, CountWords, out_, err_);
  }
  std::string Source(const std::string& lines) {
    EXPECT_TRUE(AtomicWriteFile(folder_.Path("in.jsonl"), lines).ok());
    return folder_.Path("in.jsonl");
  }

  TempDir folder_;
  StoreOpener open_;
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

TEST_F(DataToolTest, StatsCountTheTokensOfTexts) {
  const std::string source = Source("{\"n\": 1, \"text\": \"a b c\"}\n{\"n\": 2, \"text\": \"d\"}\n");
  ASSERT_EQ(Run({"stats", source, "--tokenizer", "words"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("text (str): bytes 6 in all;"),
                                HasSubstr("text (str): tokens 4 in all; shortest 1, mean 2.0,")));
  ASSERT_EQ(Run({"write", source, folder_.Path("set")}), 0) << err_.str();
  ASSERT_EQ(Run({"stats", folder_.Path("set"), "--tokenizer", "words"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("text (str): tokens 4 in all;"));
  EXPECT_EQ(Run({"stats", source, "--tokenizer", "none"}), 64);
  EXPECT_EQ(Run({"stats", Source("{\"text\": \"bad\"}\n"), "--tokenizer", "words"}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("text: not UTF-8"));
}

TEST_F(DataToolTest, ABucketIsWrittenToAndRead) {
  const auto bucket = std::make_shared<MemoryStore>();
  open_ = [bucket](const std::string& place) -> absl::StatusOr<std::shared_ptr<ObjectStore>> {
    if (place == "s3://bucket/set") return std::static_pointer_cast<ObjectStore>(bucket);
    return absl::NotFoundError(place);
  };
  std::string lines;
  for (int i = 0; i < 50; ++i) absl::StrAppend(&lines, "{\"text\": \"line ", i / 2, "\", \"ids\": [1, 2, 3]}\n");
  ASSERT_EQ(Run({"write", Source(lines), "s3://bucket/set", "--size-limit", "500", "--hashes", "sha1"}), 0)
      << err_.str();
  EXPECT_EQ(out_.str(), "s3://bucket/set: 50 samples\n");
  EXPECT_EQ(Run({"inspect", "s3://bucket/set"}), 0) << err_.str();
  EXPECT_EQ(Run({"verify", "s3://bucket/set"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("  valid  50 samples"));
  EXPECT_EQ(Run({"stats", "s3://bucket/set"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("duplicates:  25\n"), HasSubstr("numbers 150 in all")));
  std::vector<std::string> keys = *bucket->List("");
  EXPECT_GT(keys.size(), 5);
  EXPECT_EQ(std::count(keys.begin(), keys.end(), "composer-write.json"), 0) << "what a killed write leaves";
  EXPECT_NE(Run({"write", Source(lines), "s3://bucket/set"}), 0) << "it is there";
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
  EXPECT_THAT(error("{\"x\": 1}\n{\"y\": 1}\n", "x:int"), HasSubstr("in.jsonl, at byte 9, key `x`: is missing"));
  EXPECT_THAT(error("{\"x\": 300}\n", "x:uint8"),
              HasSubstr("at byte 0, key `x`: `300` does not fit the encoding uint8"));
  EXPECT_THAT(error("{\"x\": -1}\n", "x:uint64"), HasSubstr("does not fit"));
  EXPECT_THAT(error("[]\n", "x:int"), HasSubstr("at byte 0: this is not a JSON object"));
  EXPECT_THAT(error("", "x:int"), HasSubstr("there is no sample"));
  EXPECT_THAT(error("{}\n", "x"), HasSubstr("`x` has no encoding"));
  EXPECT_THAT(error("{}\n", "x:pkl"), HasSubstr("pkl"));
  EXPECT_EQ(Run({"wirte"}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean `write`?"));
  EXPECT_EQ(Run({"verify", "--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("--threads"));
  EXPECT_EQ(Run({"inspect"}), 64);
}

TEST_F(DataToolTest, CsvTextAndTokensAreWritten) {
  const auto value = [&](const std::string& set, int64_t sample, const std::string& column) {
    const auto reader = MdsReader::Create(*ReadMdsIndex(set), LocalShards(set)).value();
    MdsSample read;
    EXPECT_TRUE(reader->Read(sample, read).ok());
    for (size_t i = 0; i < reader->columns().size(); ++i) {
      if (reader->columns()[i].name == column) return DescribeValue(reader->columns()[i].encoding, read.columns[i]);
    }
    return std::string("none");
  };
  ASSERT_TRUE(AtomicWriteFile(folder_.Path("a.csv"), "name,n,x\n\"b, \"\"c\"\"\",-3,[1.5]\nd,4,\"[2, 3]\"\n").ok());
  ASSERT_EQ(
      Run({"write", folder_.Path("a.csv"), folder_.Path("csv"), "--columns", "name:str,n:int16,x:ndarray:float32"}), 0)
      << err_.str();
  EXPECT_EQ(value(folder_.Path("csv"), 0, "name"), "\"b, \\\"c\\\"\"");
  EXPECT_EQ(value(folder_.Path("csv"), 0, "n"), "-3");
  EXPECT_EQ(value(folder_.Path("csv"), 1, "x"), "float32[2]");
  EXPECT_EQ(Run({"write", folder_.Path("a.csv"), folder_.Path("bad"), "--columns", "name:int"}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("a.csv, at byte 9, key `name`: `b, \"c\"` does not fit the encoding int"));
  EXPECT_EQ(Run({"write", folder_.Path("a.csv"), folder_.Path("bad"), "--columns", "no:str"}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("there is no such column; there are name, n, x"));

  ASSERT_TRUE(AtomicWriteFile(folder_.Path("a.txt"), "one\n\ntwo\n").ok());
  ASSERT_EQ(Run({"write", folder_.Path("a.txt"), folder_.Path("text")}), 0) << err_.str();
  EXPECT_THAT(value(folder_.Path("text"), 1, "text"), HasSubstr("two"));

  const std::vector<uint16_t> tokens = {1, 2, 3, 4, 5, 6, 7};
  const std::string bytes(reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size());
  ASSERT_TRUE(AtomicWriteFile(folder_.Path("a.bin"), bytes).ok());
  EXPECT_EQ(Run({"write", folder_.Path("a.bin"), folder_.Path("tokens")}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("--row: required"));
  ASSERT_EQ(Run({"write", folder_.Path("a.bin"), folder_.Path("tokens"), "--row", "3"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr(": 2 samples"));
  EXPECT_EQ(value(folder_.Path("tokens"), 1, "tokens"), "uint16[3]");
  EXPECT_EQ(Run({"write", folder_.Path("a.bin"), folder_.Path("x"), "--format", "token"}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean `tokens`?"));
}

TEST_F(DataToolTest, AFolderOfImagesIsWrittenWithItsClasses) {
  const std::string images = folder_.Path("images"), set = folder_.Path("set");
  const std::pair<const char*, const char*> files[] = {
      {"cat/b.jpg", "one"}, {"cat/a.JPEG", "two"}, {"ant/x/c.jpg", "3"}};
  for (const auto& [name, bytes] : files) {
    const std::string path = JoinPath(images, name);
    ASSERT_TRUE(MakeDirs(DirName(path)).ok());
    ASSERT_TRUE(AtomicWriteFile(path, bytes).ok());
  }
  ASSERT_EQ(Run({"write", images, set, "--format", "images"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), set + ": 3 samples\n");
  const auto reader = MdsReader::Create(*ReadMdsIndex(set), LocalShards(set)).value();
  EXPECT_EQ(reader->columns()[0].encoding.name, "jpeg");
  MdsSample sample;
  const std::pair<const char*, char> wanted[] = {{"3", 0}, {"two", 1}, {"one", 1}};
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(reader->Read(i, sample).ok());
    EXPECT_EQ(sample.columns[0], wanted[i].first) << "by class and name";
    EXPECT_EQ(sample.columns[1], std::string(1, wanted[i].second) + std::string(7, '\0'));
  }
  EXPECT_EQ(Run({"stats", images, "--format", "images"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("image (jpeg): bytes 7 in all"));
  EXPECT_EQ(Run({"write", images, set + "2", "--format", "images", "--columns", "image:ndarray:uint8"}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("a folder of images has image:jpeg, png or bytes, and label:int"));
  EXPECT_EQ(Run({"write", folder_.Path("images/cat"), set + "3", "--format", "images"}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("there is no folder in it"));
}

TEST_F(DataToolTest, StatsCountLengthsAndDuplicates) {
  std::string lines;
  for (int i = 0; i < 100; ++i)
    absl::StrAppend(&lines, "{\"text\": \"", std::string(static_cast<size_t>(i + 1), 'a'), "\"}\n");
  const std::string source = Source(lines + "{\"text\": \"aa\"}\n");
  ASSERT_EQ(Run({"stats", source, "--threads", "3"}), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "samples:     101\nduplicates:  1\n"
            "text (str): bytes 5052 in all; shortest 1, mean 50.0, median 51, 90 % 91, 99 % 99, longest 100\n");
  const std::string of_files = out_.str();
  ASSERT_EQ(Run({"write", source, folder_.Path("set"), "--size-limit", "1000", "--compression", "gz"}), 0)
      << err_.str();
  ASSERT_EQ(Run({"stats", folder_.Path("set")}), 0) << err_.str();
  EXPECT_EQ(out_.str(), of_files);
  ASSERT_EQ(Run({"bench", folder_.Path("set"), "--samples", "90"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("ns of CPU a sample"));
}

// All files of a data set.
std::map<std::string, std::string> FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  const std::vector<std::string> names = ListDir(folder).value();
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, ".")) files[name] = ReadFile(JoinPath(folder, name)).value();
  }
  return files;
}

TEST_F(DataToolTest, AKilledWriteGoesOnToTheSameBytes) {
  std::string lines;
  for (int i = 0; i < 20'000; ++i)
    absl::StrAppend(&lines, "{\"n\": ", i, ", \"text\": \"", std::string(static_cast<size_t>(i % 97), 'a' + i % 26),
                    "\"}\n");
  const std::string source = Source(lines);
  const std::vector<std::string> flags = {"--size-limit", "20000", "--compression", "gz:1", "--hashes", "xxh64"};
  const auto write = [&](const std::string& set, int threads) {
    std::vector<std::string> args = {"write", source, set, "--threads", absl::StrCat(threads)};
    args.insert(args.end(), flags.begin(), flags.end());
    return Run(args);
  };
  ASSERT_EQ(write(folder_.Path("whole"), 1), 0) << err_.str();
  const std::string set = folder_.Path("killed");
  std::mt19937 random(3);
  int kills = 0;
  for (bool done = false; !done;) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(write(set, 1 + kills % 3));
    // Later and later, so that it ends, and so that the kill may hit anything.
    RealClock::Get().SleepFor(absl::Milliseconds(1 + random() % 20 + kills * 2));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    done = WIFEXITED(status);
    // The kill before may have come when all was written, and only the exit was left to do: then the set is refused as
    // one that is there.
    const bool complete = PathExists(set + "/index.json") && !PathExists(set + "/composer-write.json");
    if (done && !(WEXITSTATUS(status) == 64 && kills > 0 && complete)) EXPECT_EQ(WEXITSTATUS(status), 0);
    kills += done ? 0 : 1;
  }
  EXPECT_GE(kills, 3);
  EXPECT_EQ(FilesOf(set), FilesOf(folder_.Path("whole"))) << "after " << kills << " kills";
}

TEST_F(DataToolTest, AWriteThatOnlyHadItsJournalToDeleteIsFinishedByTheNext) {
  const std::vector<std::string> args = {"write", Source("{\"x\": 1}\n{\"x\": 2}\n"), "s3://bucket/set"};
  int calls_of_a_write = 0;
  for (const bool stopped : {false, true}) {
    MemoryStore bucket;
    const auto store = std::make_shared<FaultStore>(bucket);
    open_ = [&](const std::string&) { return absl::StatusOr<std::shared_ptr<ObjectStore>>(store); };
    store->OnlyFor("composer-write.json");
    if (stopped) store->FailCalls(calls_of_a_write - 1, 1, absl::DataLossError("stopped"));
    EXPECT_EQ(Run(args) == 0, !stopped) << err_.str();
    EXPECT_EQ(bucket.Size("composer-write.json").ok(), stopped);
    calls_of_a_write = store->calls();
    EXPECT_EQ(Run(args) == 0, stopped) << err_.str();
    EXPECT_FALSE(bucket.Size("composer-write.json").ok());
    EXPECT_TRUE(bucket.Size("index.json").ok());
  }
}

TEST_F(DataToolTest, AnUnfinishedWriteOfOtherDataIsNotMixedWithThis) {
  const std::string set = folder_.Path("set");
  ASSERT_TRUE(MakeDirs(set).ok());
  ASSERT_TRUE(AtomicWriteFile(set + "/composer-write.json", "{\"fingerprint\": \"x\", \"index\": \"\"}").ok());
  EXPECT_EQ(Run({"write", Source("{\"x\": 1}\n"), set}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("of an unfinished write of other files or with other options"));
  EXPECT_EQ(Run({"write", Source("{\"x\": 1}\n"), set, "--restart"}), 0) << err_.str();
  EXPECT_FALSE(PathExists(set + "/composer-write.json"));
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
