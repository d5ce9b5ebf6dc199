// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/time/clock.h"
#include "base/file.h"
#include "storage/local_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class Tools : public testing::Test {
 protected:
  Tools() : store_(dir_.Path("run/checkpoints")) {
    for (int64_t batch : {1, 2}) EXPECT_TRUE(SaveOne(store_, batch, {.run_name = "fashion"}).ok());
  }
  int Run(const std::vector<std::string>& args) {
    out_.str("");
    err_.str("");
    return RunCheckpointTool(args, nullptr, now_, out_, err_);
  }
  void Damage(const std::string& checkpoint) {
    const std::vector<std::string> keys = *store_.List(checkpoint);
    std::string bytes = *GetObject(store_, keys[0], 1 << 20);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    ASSERT_TRUE(store_.Put(keys[0], {bytes}).ok());
  }

  TempDir dir_;
  LocalStore store_;
  std::ostringstream out_, err_;
  absl::Time now_ = absl::Now();
};

TEST_F(Tools, ShowTakesACheckpointAManifestOrAFolderOfThem) {
  for (const char* path : {"run/checkpoints/ep0-ba2", "run/checkpoints/ep0-ba2/",
                           "run/checkpoints/ep0-ba2/manifest.json", "run/checkpoints", "run"}) {
    EXPECT_EQ(Run({"show", dir_.Path(path)}), 0) << path << err_.str();
    EXPECT_THAT(out_.str(), AllOf(HasSubstr("/run/checkpoints/ep0-ba2\n"), HasSubstr("run         fashion\n"),
                                  HasSubstr("epoch 0, batch 2, 20 samples"),
                                  HasSubstr("model.fc.weight    F32        48 B  [3, 4]"), HasSubstr("seed = 2")))
        << path;
  }
}

TEST_F(Tools, ShowOfAFolderFallsBackAndSaysWhy) {
  Damage("ep0-ba2");
  EXPECT_EQ(Run({"show", dir_.Path("run")}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("/ep0-ba1\n"));
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("refused: "), HasSubstr("checksum mismatch of tensor")));
}

// Regression test for L6: a forged manifest moved the cursor, and a name with a line end produced its own lines.
TEST_F(Tools, HostileTextNeverReachesTheTerminal) {
  StateDict state = MakeState(3);
  state.tensors.emplace_back("w\x1b]0;owned\a\nrun         forged", torch::zeros({2}));
  state.small["key\x1b[2J"] = "\"\\u001b[31m\"";
  ASSERT_TRUE(Saver(store_, RankExchange(), {.run_name = "x\x1b[2J\x7f\xc2\x9b"}).Save(state, {0, 3}, 30).ok());
  const std::string one = dir_.Path("run/checkpoints/ep0-ba1");
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"show", dir_.Path("run")},
                                             {"diff", one, dir_.Path("run")},
                                             {"verify", dir_.Path("run")},
                                             {"list", dir_.Path("run")},
                                             {"list", "--json", dir_.Path("run")},
                                             {"show", "no\x1b[2J"},
                                             {"export", dir_.Path("run"), dir_.Path("out/x\x1b[1m.safetensors")}}) {
    Run(args);
    for (const char c : out_.str() + err_.str())
      ASSERT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ') << args[0] << ": " << out_.str() << err_.str();
    EXPECT_THAT(out_.str() + err_.str(), Not(AnyOf(HasSubstr("\x7f"), HasSubstr("\xc2\x9b")))) << args[0];
    EXPECT_THAT(out_.str(), Not(HasSubstr("\nrun         forged"))) << args[0];
  }
}

// Regression test for L2: opening it waited for a writer, for ever.
TEST_F(Tools, WhatIsNoFileIsDamageAndIsNotWaitedFor) {
  for (const char* key : {"ep0-ba8/manifest.json", "ep0-ba9/manifest.json"})
    ASSERT_TRUE(MakeDirs(DirName(dir_.Path(std::string("run/checkpoints/") + key))).ok());
  ASSERT_EQ(mkfifo(dir_.Path("run/checkpoints/ep0-ba9/manifest.json").c_str(), 0600), 0);
  ASSERT_EQ(symlink("/dev/zero", dir_.Path("run/checkpoints/ep0-ba8/manifest.json").c_str()), 0);
  for (const char* command : {"list", "verify", "show"}) {
    Run({command, dir_.Path("run")});
    EXPECT_THAT(err_.str(), AllOf(HasSubstr("ep0-ba9/manifest.json: not a regular file"),
                                  HasSubstr("ep0-ba8/manifest.json: not a regular file")))
        << command;
  }
  EXPECT_EQ(FindNewestValid(store_)->checkpoint, "ep0-ba2");
}

TEST_F(Tools, DiffExitsWithZeroOnlyWhenEqual) {
  LocalStore other(dir_.Path("other"));
  StateDict state = MakeState(2);
  state.small["timestamp"] = R"({"batch":2,"total_wct":77})";
  ASSERT_TRUE(Saver(other, RankExchange(), {.run_name = "elsewhere"}).Save(state, {0, 2}, 20).ok());
  EXPECT_EQ(Run({"diff", dir_.Path("run"), dir_.Path("other")}), 0) << out_.str();
  EXPECT_THAT(out_.str(), HasSubstr("equal, bit for bit: 7 tensors"));
  EXPECT_EQ(Run({"diff", dir_.Path("run/checkpoints/ep0-ba1"), dir_.Path("other")}), 1);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("tensor model.fc.weight: 12 of 12 values differ, by 1 at most"),
                                HasSubstr("state seed: 1 against 2")));
}

TEST_F(Tools, VerifyReadsAllOfAFolder) {
  EXPECT_EQ(Run({"verify", dir_.Path("run")}), 0) << err_.str();
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("ep0-ba1  valid"), HasSubstr("ep0-ba2  valid")));
  Damage("ep0-ba1");
  EXPECT_EQ(Run({"verify", dir_.Path("run")}), 70);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("ep0-ba1  DAMAGED"), HasSubstr("ep0-ba2  valid")));
  EXPECT_THAT(err_.str(), HasSubstr("ep0-ba1: "));
  EXPECT_EQ(Run({"verify", dir_.Path("run/checkpoints/ep0-ba2")}), 0);
}

TEST_F(Tools, ListSaysStepSizeStateAndAge) {
  now_ += absl::Hours(50);
  EXPECT_EQ(Run({"list", dir_.Path("run")}), 0) << err_.str();
  EXPECT_THAT(out_.str(),
              AllOf(HasSubstr("NAME"), HasSubstr("ep0-ba1"), HasSubstr("complete  2d 2h"), HasSubstr("\nep0-ba2")));
  EXPECT_EQ(Run({"list", "--verify", dir_.Path("run")}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("valid  "));
  Damage("ep0-ba1");  // the length is unchanged, so only reading it reveals the damage
  EXPECT_EQ(Run({"list", dir_.Path("run")}), 0);
  EXPECT_EQ(Run({"list", dir_.Path("run"), "--verify", "--json"}), 70);
  const nlohmann::json json = nlohmann::json::parse(out_.str());
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["name"], "ep0-ba1");
  EXPECT_EQ(json[0]["valid"], false);
  EXPECT_THAT(json[0]["problem"].get<std::string>(), HasSubstr("checksum mismatch"));
  EXPECT_EQ(json[1]["valid"], true);
  EXPECT_EQ(json[1]["verified"], true);
  EXPECT_EQ(json[1]["batch"], 2);
  EXPECT_EQ(json[1]["samples"], 20);
  EXPECT_EQ(json[1]["run_name"], "fashion");
  EXPECT_GT(json[1]["bytes"], 100);
  EXPECT_EQ(Run({"list", dir_.Path("run/checkpoints/ep0-ba2")}), 64);
}

TEST_F(Tools, ListSeesAMissingOrShorterFile) {
  const std::vector<std::string> keys = *store_.List("ep0-ba2");
  ASSERT_TRUE(store_.Put(keys[0], {"x"}).ok());
  EXPECT_EQ(Run({"list", dir_.Path("run")}), 70);
  EXPECT_THAT(out_.str(), HasSubstr("DAMAGED"));
  EXPECT_THAT(err_.str(), HasSubstr("has 1 of "));
  ASSERT_TRUE(store_.Delete(keys[0]).ok());
  EXPECT_EQ(Run({"list", dir_.Path("run")}), 70);
}

TEST_F(Tools, PruneKeepsTheNewestAndTheNewestValidOne) {
  EXPECT_TRUE(SaveOne(store_, 3, {.run_name = "fashion"}).ok());
  EXPECT_EQ(Run({"prune", dir_.Path("run")}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("--keep N is needed"));
  EXPECT_EQ(Run({"prune", dir_.Path("run"), "--keep", "0"}), 64);
  EXPECT_EQ(Run({"prune", dir_.Path("run"), "--keep=1", "--dry-run"}), 0);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("would delete  "), HasSubstr("keep    ")));
  EXPECT_EQ(store_.List("ep0-ba1")->size(), 2u);
  Damage("ep0-ba3");
  EXPECT_EQ(Run({"prune", "--keep", "1", dir_.Path("run")}), 75) << "saved a moment ago";
  EXPECT_THAT(err_.str(), HasSubstr("a run may be saving into"));
  EXPECT_EQ(store_.List("ep0-ba1")->size(), 2u);
  now_ += absl::Minutes(11);
  EXPECT_EQ(Run({"prune", "--keep", "1", dir_.Path("run")}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("ep0-ba2  the newest valid one"));
  EXPECT_THAT(*store_.List("ep0-ba1"), testing::IsEmpty());
  EXPECT_EQ(Run({"verify", dir_.Path("run/checkpoints/ep0-ba2")}), 0);
  Damage("ep0-ba2");
  EXPECT_EQ(Run({"prune", dir_.Path("run"), "--keep", "1"}), 70);
  EXPECT_THAT(err_.str(), HasSubstr("none of the 2 checkpoints is valid: nothing is deleted"));
  EXPECT_FALSE(store_.List("ep0-ba2")->empty());
}

TEST_F(Tools, PruneLeavesASaveUnderWayAlone) {
  now_ += absl::Hours(1);
  ASSERT_TRUE(store_.Put("ep0-ba1/attempt-0123456789abcdef/rank-00000.safetensors", {"x"}).ok());
  EXPECT_EQ(Run({"prune", dir_.Path("run"), "--keep", "1"}), 75);
  EXPECT_THAT(err_.str(), HasSubstr("ep0-ba1/attempt-0123456789abcdef is a save under way"));
  EXPECT_EQ(Run({"prune", dir_.Path("run"), "--keep", "1", "--force"}), 0) << err_.str();
  EXPECT_THAT(*store_.List("ep0-ba1"), testing::ElementsAre("ep0-ba1/attempt-0123456789abcdef/rank-00000.safetensors"));
}

TEST_F(Tools, WhatIsExportedIsImportedAgainBitForBit) {
  StateDict state;
  for (const auto& [name, tensor] : MakeState(5).tensors) state.tensors.emplace_back("model/" + name, tensor);
  ASSERT_TRUE(Saver(store_, RankExchange(), {.run_name = "r"}).Save(state, {0, 9}, 1).ok());
  ASSERT_EQ(Run({"export", dir_.Path("run"), dir_.Path("hf"), "--max-shard-size", "60B", "--rename", "model.=m.",
                 "--rename=optimizer.=o."}),
            0)
      << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("/hf/model.safetensors.index.json\n"));
  ASSERT_EQ(Run({"import", dir_.Path("hf"), dir_.Path("again"), "--rename", "m.=model.", "--rename", "o.=optimizer."}),
            0)
      << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("load_weights_only: true"));
  LocalStore again(dir_.Path("again"));
  StateDict target;
  for (const auto& [name, tensor] : MakeTarget().tensors) target.tensors.emplace_back("model/" + name, tensor);
  ASSERT_TRUE(LoadCheckpoint(again, "ep0-ba0", &target).ok());
  EXPECT_EQ(Difference(state, target), "");
  EXPECT_EQ(Run({"import", dir_.Path("hf"), dir_.Path("again")}), 64);  // the folder already exists
  EXPECT_EQ(Run({"import", dir_.Path("hf"), dir_.Path("again"), "--overwrite"}), 0) << err_.str();
}

TEST_F(Tools, ExportAndImportNameWhatTheyDoNotTake) {
  EXPECT_EQ(Run({"export", dir_.Path("run"), dir_.Path("hf"), "--dtype", "int8"}), 64);
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("`int8` must be fp32, fp16, bf16 or fp64"),
                                HasSubstr("usage: composer checkpoint export")));
  EXPECT_EQ(Run({"export", dir_.Path("run"), dir_.Path("hf")}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("no tensors of a model"));
  EXPECT_EQ(Run({"export", dir_.Path("run"), dir_.Path("hf"), "--dtpye", "bf16"}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean `--dtype`?"));
  EXPECT_EQ(Run({"import", dir_.Path("nowhere.pt"), dir_.Path("again")}), 64);
  EXPECT_EQ(Run({"import", "s3://bucket/x.pt", dir_.Path("again")}), 64);
  EXPECT_EQ(Run({"export", dir_.Path("run"), dir_.Path("x.pt.xz")}), 64);
  EXPECT_THAT(err_.str(), HasSubstr(".xz is neither written nor read, but .gz, .lz4, .zst and .tar are"));
  EXPECT_EQ(Run({"export", dir_.Path("run"), dir_.Path("x.safetensors.gz")}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("of packed files there are x.pt.gz"));
  EXPECT_FALSE(PathExists(dir_.Path("again")));
}

TEST_F(Tools, EveryCommandHasHelp) {
  for (const std::string command : {"list", "show", "verify", "diff", "export", "import", "prune"}) {
    for (const char* flag : {"--help", "-h"}) {
      EXPECT_EQ(Run({command, flag}), 0) << command;
      EXPECT_THAT(out_.str(), testing::StartsWith("usage: composer checkpoint " + command + " "));
      EXPECT_EQ(err_.str(), "");
    }
  }
  EXPECT_EQ(Run({"prune", dir_.Path("run"), "--keep=1", "--help"}), 0);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("--keep N"), HasSubstr("--dry-run")));
  EXPECT_EQ(Run({"verify", dir_.Path("run")}), 0) << "nothing was deleted";
  EXPECT_THAT(out_.str(), HasSubstr("ep0-ba1"));
}

TEST_F(Tools, AFileOfWeightsIsNamedAsOneAndOverwriteIsNamedWhereItHelps) {
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("x.safetensors"), "").ok());
  for (const char* command : {"show", "verify"}) {
    EXPECT_EQ(Run({command, dir_.Path("x.safetensors")}), 64);
    EXPECT_THAT(err_.str(), HasSubstr("x.safetensors is a file, not a checkpoint; `composer checkpoint import`"));
  }
  EXPECT_EQ(Run({"show", dir_.Path("run/checkpoints/latest")}), 0) << "stands for its folder: " << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("ep0-ba2"));
  StateDict state;
  for (const auto& [name, tensor] : MakeState(5).tensors) state.tensors.emplace_back("model/" + name, tensor);
  ASSERT_TRUE(Saver(store_, RankExchange(), {.run_name = "r"}).Save(state, {0, 9}, 1).ok());
  EXPECT_EQ(Run({"export", dir_.Path("run"), dir_.Path("hf")}), 0) << err_.str();
  EXPECT_EQ(Run({"export", dir_.Path("run"), dir_.Path("hf")}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("--overwrite replaces what is there"));
}

TEST_F(Tools, UsageAndUnreadablePaths) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{}, {"show"}, {"diff", "a"}, {"verify", "a", "b"}, {"shwo", "a"}}) {
    EXPECT_EQ(Run(args), 64);
    EXPECT_THAT(err_.str(), HasSubstr("usage: composer checkpoint"));
  }
  EXPECT_THAT(err_.str(), HasSubstr("did you mean `show`?"));
  ASSERT_TRUE(MakeDirs(dir_.Path("empty")).ok());
  for (const char* command : {"show", "verify"}) {
    EXPECT_EQ(Run({command, dir_.Path("nowhere")}), 64);
    EXPECT_THAT(err_.str(), HasSubstr("there is no folder " + dir_.Path("nowhere")));
    EXPECT_EQ(Run({command, dir_.Path("empty")}), 64);
    EXPECT_THAT(err_.str(), HasSubstr(dir_.Path("empty")));
  }
  EXPECT_FALSE(PathExists(dir_.Path("nowhere")));
  Damage("ep0-ba1");
  Damage("ep0-ba2");
  EXPECT_EQ(Run({"diff", dir_.Path("run"), dir_.Path("run")}), 64);
}

}  // namespace
}  // namespace composer
