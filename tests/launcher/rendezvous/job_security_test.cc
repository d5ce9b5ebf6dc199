// Tests where the secret of a job comes from.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/job_security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "launcher/rendezvous/token_file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef";

class JobSecurityTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = dir_.Path(name);
    EXPECT_TRUE(AtomicWriteFile(path, text).ok());
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  std::string Error(const SecurityFlags& flags, bool several_nodes = true) {
    const auto security = ChooseSecurity(flags, environment_, several_nodes);
    EXPECT_EQ(security.status().code(), absl::StatusCode::kInvalidArgument) << security.status();
    return std::string(security.status().message());
  }

  TempDir dir_;
  Environment environment_{{{"HOME", dir_.path()}}};
};

TEST_F(JobSecurityTest, OneNodeNeedsNone) {
  const JobSecurity security = ChooseSecurity({}, environment_, false).value();
  EXPECT_EQ(security.token, "");
  EXPECT_FALSE(MakeCredentials(security)->secure());
  EXPECT_FALSE(PathExists(dir_.Path(".config")));
}

TEST_F(JobSecurityTest, SeveralNodesHaveOneByDefault) {
  const JobSecurity first = ChooseSecurity({}, environment_, true).value();
  EXPECT_EQ(first.token.size(), 64u);
  const std::string path = dir_.Path(".config/composer/token");
  EXPECT_THAT(first.origin, HasSubstr(path));
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(ChooseSecurity({}, environment_, true)->token, first.token);
  EXPECT_TRUE(MakeCredentials(first)->secure());
}

TEST_F(JobSecurityTest, EachSlurmJobHasItsOwn) {
  std::set<std::string> tokens;
  for (const char* job : {"17", "18", "18"}) {
    environment_.Set("SLURM_JOB_ID", job);
    tokens.insert(ChooseSecurity({}, environment_, true)->token);
  }
  EXPECT_EQ(tokens.size(), 2u);
}

TEST_F(JobSecurityTest, FlagBeforeVariableBeforeTheUsersOwn) {
  environment_.Set("COMPOSER_TOKEN", "of the variable ....");
  EXPECT_EQ(ChooseSecurity({}, environment_, false)->token, "of the variable ....");
  EXPECT_EQ(ChooseSecurity({.token_file = Write("t", absl::StrCat(kToken, "\n"))}, environment_, true)->token, kToken);
}

TEST_F(JobSecurityTest, MistakesAreNamed) {
  EXPECT_THAT(Error({.token_file = Write("open", kToken, 0644)}), HasSubstr("chmod 600"));
  EXPECT_THAT(Error({.token_file = Write("empty", "\n")}), HasSubstr("is empty"));
  EXPECT_THAT(Error({.token_file = Write("short", "abc")}), HasSubstr("has 3 bytes, it must have at least 16"));
  EXPECT_THAT(Error({.token_file = Write("long", std::string(5000, 'x'))}), HasSubstr("more than 1024 bytes"));
  EXPECT_THAT(Error({.token_file = dir_.path()}), HasSubstr("is not a plain file"));
  EXPECT_THAT(Error({.tls = {.certificate = "c.pem"}}), HasSubstr("all together"));
  EXPECT_THAT(Error({.tls = {.server_name = "n"}}), HasSubstr("--tls-server-name needs"));
  EXPECT_THAT(Error({.insecure = true, .token_file = "f"}), HasSubstr("--insecure"));
  environment_ = Environment();
  EXPECT_THAT(Error({}), HasSubstr("do not share a secret: set COMPOSER_TOKEN"));
}

TEST_F(JobSecurityTest, AMissingTokenFileIsNotMade) {
  const auto security = ChooseSecurity({.token_file = dir_.Path("none")}, environment_, true);
  EXPECT_THAT(std::string(security.status().message()), HasSubstr("there is no token file"));
  EXPECT_FALSE(PathExists(dir_.Path("none")));
}

TEST_F(JobSecurityTest, InsecureIsWhatItSays) {
  const JobSecurity security = ChooseSecurity({.insecure = true}, environment_, true).value();
  EXPECT_FALSE(MakeCredentials(security)->secure());
}

TEST_F(JobSecurityTest, TheTokenIsPassedOnInTheEnvironmentAndNeverInArguments) {
  const JobSecurity security = ChooseSecurity({.token_file = Write("t", kToken)}, environment_, true).value();
  Environment child;
  PassToken(security, child);
  EXPECT_EQ(child.Get("COMPOSER_TOKEN"), kToken);
  EXPECT_TRUE(SecurityArguments(security).empty());
  EXPECT_EQ(ChooseSecurity({}, child, false)->token, kToken);
  PassToken({}, child);
  EXPECT_FALSE(child.Get("COMPOSER_TOKEN").has_value());
}

TEST_F(JobSecurityTest, NodesThatComeAtOnceGetTheSameToken) {
  const std::string path = dir_.Path("shared/token");
  std::vector<std::string> tokens(16);
  std::vector<std::thread> nodes;
  for (std::string& token : tokens) nodes.emplace_back([&] { token = ReadOrMakeToken(path).value(); });
  for (std::thread& node : nodes) node.join();
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), 1u);
  EXPECT_EQ(ListDir(dir_.Path("shared"))->size(), 1u);  // nothing left behind
}

}  // namespace
}  // namespace composer
