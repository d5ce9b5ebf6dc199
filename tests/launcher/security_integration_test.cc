// Two launchers on an address that others could reach: tests who is accepted, who is rejected, and that
// both learn why.
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/process/process_tree.h"
#include "launcher/workers/node_resources.h"
#include "tests/launcher/launched.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns an IPv4 address of this machine that is not the loopback device's, or "".
std::string OwnAddress() {
  ifaddrs* list = nullptr;
  std::string result;
  if (getifaddrs(&list) != 0) return "";
  for (const ifaddrs* i = list; i != nullptr && result.empty(); i = i->ifa_next) {
    const bool up = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_LOOPBACK) == 0;
    if (!up || i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof(text));
    result = text;
  }
  freeifaddrs(list);
  return result;
}

class SecurityTest : public testing::Test {
 protected:
  void SetUp() override {
    if (address_.empty()) GTEST_SKIP() << "this machine has no address but the loopback device's";
    port_ = FreePort().value();
  }
  // Returns the command of one node, with its home folder and more variables.
  std::vector<std::string> Node(int node_rank, const std::string& home, std::vector<std::string> variables = {},
                                std::vector<std::string> flags = {},
                                const std::string& script = "echo rank $RANK of $WORLD_SIZE") {
    std::vector<std::string> words = {"-u", "COMPOSER_TOKEN", absl::StrCat("HOME=", home), "XDG_CONFIG_HOME="};
    words.insert(words.end(), variables.begin(), variables.end());
    words.insert(words.end(), {COMPOSER_BINARY, "-n1", "--nnodes=2", absl::StrCat("--node_rank=", node_rank),
                               absl::StrCat("--master_addr=", address_), absl::StrCat("--master_port=", port_),
                               "--join-timeout=20"});
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"-c", "sh", "-c", script});
    return words;
  }

  const std::string address_ = OwnAddress();
  int port_ = 0;
  TempDir dir0_, dir1_, home_, other_home_;
};

TEST_F(SecurityTest, NodesThatShareAHomeMeetWithoutAWord) {
  Launched first(dir0_, "/usr/bin/env", Node(0, home_.path()));
  Launched second(dir1_, "/usr/bin/env", Node(1, home_.path()));
  EXPECT_EQ(first.Wait(), 0) << first.err();
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.out(), HasSubstr("rank 1 of 2"));
  EXPECT_TRUE(PathExists(home_.Path(".config/composer/token")));
}

TEST_F(SecurityTest, OthersAreRefusedAtOnceWithTheCause) {
  Launched first(dir0_, "/usr/bin/env", Node(0, home_.path()));
  Launched second(dir1_, "/usr/bin/env", Node(1, other_home_.path()));
  EXPECT_EQ(second.Wait(), 64);
  EXPECT_THAT(second.err(), AllOf(HasSubstr(absl::StrCat(address_, ":", port_, " answers")), HasSubstr("another token"),
                                  HasSubstr(other_home_.Path(".config/composer/token")), HasSubstr("COMPOSER_TOKEN")));
  Launched third(dir1_, "/usr/bin/env", Node(1, other_home_.path(), {}, {"--insecure"}));
  EXPECT_EQ(third.Wait(), 64);
  EXPECT_THAT(third.err(), HasSubstr("asks for credentials and this side has none"));
  first.Signal(SIGTERM);
  EXPECT_NE(first.Wait(), -1);
}

TEST_F(SecurityTest, AGivenTokenNeedsNoHome) {
  const std::vector<std::string> token = {"COMPOSER_TOKEN=the same on both nodes"};
  Launched first(dir0_, "/usr/bin/env", Node(0, "", token));
  Launched second(dir1_, "/usr/bin/env", Node(1, "", token));
  EXPECT_EQ(first.Wait(), 0) << first.err();
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_FALSE(PathExists(home_.Path(".config")));
}

TEST_F(SecurityTest, NoSecretAtAllIsAnErrorAndNotAnOpenPort) {
  Launched run(dir0_, "/usr/bin/env", Node(0, ""));
  EXPECT_EQ(run.Wait(), 64);
  EXPECT_THAT(run.err(),
              AllOf(HasSubstr("do not share a secret"), HasSubstr("COMPOSER_TOKEN"), HasSubstr("--insecure")));
}

TEST_F(SecurityTest, TheTokenIsInNobodysArguments) {
  const std::vector<std::string> token = {"COMPOSER_TOKEN=not for everybody's eyes"};
  Launched first(dir0_, "/usr/bin/env", Node(0, "", token, {}, "sleep 30"));
  Launched second(dir1_, "/usr/bin/env", Node(1, "", token, {}, "touch there; sleep 30"));
  ASSERT_TRUE(WaitUntil([&] { return PathExists(dir1_.Path("there")); }, absl::Seconds(15))) << second.err();
  for (const pid_t root : {first.pid(), second.pid()}) {
    for (const pid_t pid : WithDescendants({root})) {
      EXPECT_THAT(ReadFile(absl::StrCat("/proc/", pid, "/cmdline")).value_or(""), Not(HasSubstr("not for everybody")));
    }
  }
  for (const pid_t pid : WithDescendants({second.pid()})) {
    const std::string environment = ReadFile(absl::StrCat("/proc/", pid, "/environ")).value_or("");
    if (absl::StrContains(environment, "LOCAL_RANK=")) EXPECT_THAT(environment, Not(HasSubstr("COMPOSER_TOKEN=")));
  }
  first.Signal(SIGTERM);
  second.Signal(SIGTERM);
  EXPECT_NE(first.Wait(), -1);
  EXPECT_NE(second.Wait(), -1);
}

}  // namespace
}  // namespace composer
