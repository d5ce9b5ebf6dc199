// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "storage/local_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Tools : public testing::Test {
 protected:
  Tools() : store_(dir_.Path("run/checkpoints")) {
    for (int64_t batch : {1, 2}) EXPECT_TRUE(SaveOne(store_, batch, {.run_name = "fashion"}).ok());
  }
  int Run(const std::vector<std::string>& args) {
    out_.str("");
    err_.str("");
    return RunCheckpointTool(args, nullptr, out_, err_);
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
