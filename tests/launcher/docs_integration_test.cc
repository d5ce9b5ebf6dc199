// Passes what the binary prints about itself to the programs that use it: bash and man.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "tests/launcher/launched.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DocsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* kind : {"bash", "zsh", "man"}) {
      Launched run(dir_, COMPOSER_BINARY, {"--print-completion", kind});
      ASSERT_EQ(run.Wait(), 0) << run.err();
      ASSERT_TRUE(AtomicWriteFile(dir_.Path(kind), run.out()).ok());
    }
  }
  // Returns what TAB offers for the last of the words.
  std::string Complete(const std::string& words, int last) {
    const std::string script = absl::StrCat("export PATH=./path:$PATH; source ./bash && COMP_WORDS=(", words,
                                            ") COMP_CWORD=", last, " && _composer; echo \"${COMPREPLY[*]}\"");
    Launched shell(dir_, "/bin/bash", {"-c", script});
    EXPECT_EQ(shell.Wait(), 0) << shell.err();
    EXPECT_EQ(shell.err(), "");
    return shell.out();
  }

  TempDir dir_;
};

TEST_F(DocsTest, BashCompletes) {
  EXPECT_EQ(Complete("composer --rdzv-ba", 1), "--rdzv-backend\n");
  EXPECT_EQ(Complete("composer --rdzv-backend c", 2), "c10d\n");
  EXPECT_EQ(Complete("composer -n ''", 2), "auto cpu gpu\n");
  EXPECT_EQ(Complete("composer -n 2 valid", 3), "validate\n");
  EXPECT_EQ(Complete("composer -n 2 ba", 3), "bash\n");  // the file that SetUp wrote
  EXPECT_EQ(Complete("composer -n 2 train.py --w", 4), "\n");
  EXPECT_EQ(Complete("composer checkpoint ''", 2), "list show verify diff export import prune\n");
  EXPECT_EQ(Complete("composer checkpoint prune --k", 3), "--key --keep\n");
  EXPECT_EQ(Complete("composer status --j", 2), "--json\n");
  EXPECT_EQ(Complete("composer -n 2 drain --w", 4), "--wait\n");
  EXPECT_THAT(Complete("composer --", 1), AllOf(HasSubstr("--nproc-per-node"), HasSubstr("--log-dir")));
}

TEST_F(DocsTest, BashCompletesTheNamesOfRunningJobs) {
  ASSERT_TRUE(MakeDirs(dir_.Path("path")).ok());
  ASSERT_EQ(symlink(COMPOSER_BINARY, dir_.Path("path/composer").c_str()), 0);
  Launched job(dir_, COMPOSER_BINARY, {"--rdzv-id=a-long-sleep", "-c", "sleep", "60"});
  ASSERT_TRUE(WaitUntil([&] { return !ListDir(dir_.Path("runtime")).value_or(std::vector<std::string>()).empty(); },
                        absl::Seconds(10)));
  EXPECT_EQ(Complete("composer stop ''", 2), "a-long-sleep\n");
}

TEST_F(DocsTest, ZshHasAllFlags) {
  EXPECT_THAT(*ReadFile(dir_.Path("zsh")), AllOf(HasSubstr("#compdef composer\n"), HasSubstr("'--nnodes[")));
  if (access("/bin/zsh", X_OK) != 0) return;  // not among the packages of the setup
  Launched zsh(dir_, "/bin/zsh", {"-n", "zsh"});
  EXPECT_EQ(zsh.Wait(), 0) << zsh.err();
}

TEST_F(DocsTest, ManShowsThePageWithoutAWarning) {
  if (access("/usr/bin/man", X_OK) != 0) GTEST_SKIP() << "no man here";
  Launched man(dir_, "/usr/bin/man", {"--warnings", "-E", "UTF-8", "-l", dir_.Path("man")});
  EXPECT_EQ(man.Wait(), 0) << man.err();
  EXPECT_EQ(man.err(), "");
  EXPECT_THAT(man.out(), AllOf(HasSubstr("COMPOSER(1)"), HasSubstr("--nproc-per-node"), HasSubstr("EXIT STATUS"),
                               Not(HasSubstr("\\f"))));
}

}  // namespace
}  // namespace composer
