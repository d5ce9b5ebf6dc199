// Tests finding, reading, filtering and sorting runs.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"
#include "views/run_filter.h"
#include "views/runs_table.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunListTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = dir_.Path(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.parent_path().string();
  }
  TempDir dir_;
};

TEST_F(RunListTest, GoldenRunIsReadAsItSays) {
  const auto run = ReadRun("tests/golden/runs/0.1.0/fashion", {});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->name, "fashion");
  EXPECT_EQ(run->state, "done");
  EXPECT_EQ(run->steps, 40);
  EXPECT_EQ(run->world_size, 2);
  EXPECT_EQ(run->launches, 1);
  EXPECT_TRUE(run->metrics.contains("loss/train/total"));
  ASSERT_EQ(run->generations.size(), 1u);
  EXPECT_EQ(run->generations[0].ended, "done");
}

TEST_F(RunListTest, NewestValueWinsAndRareOnesAreFoundFarBack) {
  std::string text = "{\"time/batch\":1,\"rare\":7,\"loss\":9}\n";
  for (int i = 2; i < 5000; ++i) absl::StrAppend(&text, "{\"time/batch\":", i, ",\"wall\":", i, ",\"loss\":", i, "}\n");
  const std::string folder = Write("r/metrics.jsonl", text + "{\"time/batch\":5000,\"lo");
  const auto run = ReadRun(folder, {"rare"});
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->steps, 4999);
  EXPECT_EQ(run->last_record, 4999);
  EXPECT_EQ(run->metrics.at("loss"), 4999);
  EXPECT_EQ(run->metrics.at("rare"), 7);
  EXPECT_FALSE(ReadRun(folder, {})->metrics.contains("rare"));
}

TEST_F(RunListTest, ARunThatNobodyHoldsIsLost) {
  const std::string folder = Write("r/summary.json", R"({"exit_reason":"running","run_name":"x"})");
  Write("r/.lock", "1");
  EXPECT_EQ(ReadRun(folder, {})->state, "lost");
  const int fd = open((folder + "/.lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_EQ(ReadRun(folder, {})->state, "running");
  close(fd);
}

TEST_F(RunListTest, HostileSummariesAreNotBelieved) {
  for (const char* text :
       {"", "[", "[]", R"({"exit_reason":5,"steps":-1,"metrics":[],"generations":{},"run_name":["a"]})",
        R"({"generations":[1,{"exits":{}},{"exits":[1,{"role":"first cause"}]}],"all_launches":3})"}) {
    const std::string folder = Write("r/summary.json", text);
    const auto run = ReadRun(folder, {});
    ASSERT_TRUE(run.ok());
    EXPECT_EQ(run->state, "unknown") << text;
    EXPECT_EQ(run->steps, 0) << text;
  }
}

TEST_F(RunListTest, RunsAreFoundBelowFoldersButNotInRuns) {
  Write("a/metrics.jsonl", "");
  Write("a/checkpoints/metrics.jsonl", "");
  Write("group/b/summary.json", "{}");
  Write("group/none/other.txt", "");
  EXPECT_THAT(FindRuns(dir_.path()), ElementsAre(dir_.Path("a"), dir_.Path("group/b")));
  EXPECT_THAT(FindRuns(dir_.Path("a")), ElementsAre(dir_.Path("a")));
  EXPECT_EQ(ReadRuns(FindRuns(dir_.path()), {}).size(), 2u);
}

ListedRun OneRun(const std::string& name, double loss) {
  ListedRun run;
  run.info.name = name;
  run.info.metrics["loss"] = loss;
  return run;
}

TEST(RunFilter, Conditions) {
  ListedRun run = OneRun("bert-1", 0.5);
  run.info.state = "done";
  run.settings["optimizers.lr"] = "1.0e-3";
  const auto holds = [&](const std::string& text) {
    const auto condition = ParseCondition(text);
    EXPECT_TRUE(condition.ok()) << condition.status();
    return condition->Holds(run);
  };
  for (const char* text : {"loss<0.6", "loss <= 0.5", "loss>=0.5", "loss=0.5", "state=done", "state!=failed",
                           "name=bert-*", "config.optimizers.lr=0.001", "step=0"})
    EXPECT_TRUE(holds(text)) << text;
  for (const char* text : {"loss<0.5", "loss!=0.5", "other<1", "other!=1", "name=gpt*", "config.none=1", "loss>nan"})
    EXPECT_FALSE(holds(text)) << text;
  for (const char* text : {"", "loss", "=1", "loss=", "<"}) EXPECT_FALSE(ParseCondition(text).ok()) << text;
}

TEST(RunFilter, SortsWithMissingValuesLast) {
  std::vector<ListedRun> runs = {OneRun("b", 2), OneRun("none", 0), OneRun("nan", std::nan("")), OneRun("a", 1)};
  runs[1].info.metrics.clear();
  const auto names = [&] {
    std::vector<std::string> found;
    for (const ListedRun& run : runs) found.push_back(run.info.name);
    return found;
  };
  SortRuns("loss", runs);
  EXPECT_THAT(names(), ElementsAre("a", "b", "nan", "none"));
  SortRuns("-loss", runs);
  EXPECT_THAT(names(), ElementsAre("nan", "b", "a", "none"));
  runs[2].info.last_record = 5;
  runs[3].info.last_record = 6;
  SortRuns("", runs);
  EXPECT_THAT(names(), ElementsAre("none", "a", "nan", "b"));
}

TEST(RunsTable, TextAndJson) {
  std::vector<ListedRun> runs = {OneRun("a\nb", 0.25),
                                 OneRun("a very long name of a run that is cut at forty characters", std::nan(""))};
  runs[0].settings["lr"] = "1";
  runs[1].settings = {{"lr", "2"}, {"seed", "1"}};
  const std::string table = RunsTable(runs, {"loss"}, 0);
  EXPECT_THAT(table, HasSubstr("a\\nb"));
  EXPECT_THAT(table, HasSubstr("cut a…"));
  EXPECT_THAT(ComparisonTable(runs, {"loss"}), testing::ContainsRegex("lr +1 +2\nseed +- +1\nloss"));
  const auto json = nlohmann::json::parse(RunsJson(runs, {}));
  EXPECT_EQ(json["runs"][0]["metrics"]["loss"], 0.25);
  EXPECT_TRUE(json["runs"][1]["metrics"]["loss"].is_null());
  EXPECT_EQ(json["runs"][0]["config"]["lr"], "1");
  EXPECT_THAT(MetricColumns(runs, {"lo*"}), ElementsAre("loss"));
  EXPECT_THAT(MetricColumns(runs, {}), ElementsAre());
}

}  // namespace
}  // namespace composer
