// The rendezvous of several launchers is lost, frozen or restarted, with the real binary; so are launchers. Workers are
// shell scripts that record their rank, the world size and how often the job was restarted.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/process/process_tree.h"
#include "launcher/workers/node_resources.h"
#include "tests/launcher/launched.h"
#include "tests/rendezvous/test_authority.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::Duration kLong = absl::Seconds(60);

class FailoverTest : public testing::Test {
 protected:
  // Returns `servers` addresses of this machine, each to be served by the node of its rank.
  std::string Endpoints(int servers) {
    std::vector<std::string> list;
    for (int i = 0; i < servers; ++i) list.push_back(absl::StrCat("127.0.0.1:", *FreePort()));
    return absl::StrJoin(list, ",");
  }
  // Starts node `rank`. A second call with the same rank starts the same command on the same host.
  Launched& Start(int rank, std::vector<std::string> flags, const std::string& script = "") {
    homes_.resize(std::max<size_t>(homes_.size(), static_cast<size_t>(rank) + 1));
    if (homes_[rank] == nullptr) homes_[rank] = std::make_unique<TempDir>();
    flags.insert(flags.begin(), {"-n1", absl::StrCat("--node_rank=", rank), "--rdzv-id=job", "--join-timeout=40"});
    const std::string note = "echo $$ > pid-$RANK-$WORLD_SIZE-$TORCHELASTIC_RESTART_COUNT; ";
    const std::string wait = "while ! test -e go; do sleep 0.05; done";
    flags.insert(flags.end(),
                 {"-c", "sh", "-c", absl::StrCat("cd ", dir_.path(), "; ", note, script.empty() ? wait : script)});
    launchers_.push_back(std::make_unique<Launched>(*homes_[rank], COMPOSER_BINARY, std::move(flags)));
    return *launchers_.back();
  }
  bool Runs(int rank, int world_size, int restarts) {
    const std::string path = dir_.Path(absl::StrCat("pid-", rank, "-", world_size, "-", restarts));
    return WaitUntil([&] { return PathExists(path); }, kLong);
  }
  std::vector<std::string> Starts() {
    std::vector<std::string> starts;
    const std::vector<std::string> names = *ListDir(dir_.path());
    for (const std::string& name : names) {
      if (absl::StartsWith(name, "pid-")) starts.push_back(name);
    }
    return starts;
  }
  void Go() { ASSERT_TRUE(AtomicWriteFile(dir_.Path("go"), "").ok()); }
  bool Says(const Launched& launcher, absl::string_view what, absl::Duration limit = kLong) {
    return WaitUntil([&] { return absl::StrContains(launcher.err(), what); }, limit);
  }
  // Returns the process that serves for a launcher, or 0.
  static pid_t ServerOf(const Launched& launcher) {
    for (const pid_t pid : WithDescendants({launcher.pid()})) {
      if (ReadFile(absl::StrCat("/proc/", pid, "/comm")).value_or("") == "composer-serve\n") return pid;
    }
    return 0;
  }
  // Returns what the launcher of `rank` would remember if it were killed now.
  std::vector<std::string> Memories(int rank) {
    std::vector<std::string> files;
    for (const std::string& name : ListDir(homes_[rank]->Path("runtime")).value_or(std::vector<std::string>())) {
      const bool half = absl::StrContains(name, ".tmp-");  // a kill came while it was written
      if (absl::StartsWith(name, "node-") && !absl::EndsWith(name, ".lock") && !half) files.push_back(name);
    }
    return files;
  }

  TempDir dir_;
  std::vector<std::unique_ptr<TempDir>> homes_;
  std::vector<std::unique_ptr<Launched>> launchers_;
};

// Uses three nodes, so that the remaining two are a majority of the world.
class ListTest : public FailoverTest {
 protected:
  void TheNextHostTakesOver(std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--nnodes=2:3", "--rdzv-endpoint", Endpoints(2), "--last-call=20", "--max-restarts=1"});
    Launched& first = Start(0, flags);
    Launched& second = Start(1, flags);
    Launched& third = Start(2, flags);
    ASSERT_TRUE(Runs(0, 3, 0) && Runs(1, 3, 0) && Runs(2, 3, 0)) << first.err() << second.err() << third.err();
    first.Signal(SIGKILL);  // the rendezvous dies with its launcher
    EXPECT_EQ(first.Wait(), 137);
    EXPECT_TRUE(Says(second, "serving it here from now on")) << second.err();
    EXPECT_TRUE(Runs(0, 2, 1) && Runs(1, 2, 1)) << second.err() << third.err();
    Go();
    EXPECT_EQ(second.Wait(kLong), 0) << second.err();
    EXPECT_EQ(third.Wait(kLong), 0) << third.err();
  }
};

TEST_F(ListTest, TheNextHostTakesOver) { TheNextHostTakesOver({}); }

TEST_F(ListTest, TheNextHostTakesOverWithTheJobsToken) {
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("token"), "a secret of this job, long enough to be one\n").ok());
  std::filesystem::permissions(dir_.Path("token"), std::filesystem::perms::owner_read);
  TheNextHostTakesOver({"--token-file", dir_.Path("token")});
}

TEST_F(ListTest, TheNextHostTakesOverWithCertificates) {
  const TestAuthority authority(dir_, "site");
  const TlsFiles files = authority.Issue("node", "127.0.0.1", absl::Hours(1));
  TheNextHostTakesOver({"--tls-cert", files.certificate, "--tls-key", files.key, "--tls-ca", files.authority});
}

// The first host's launcher lives while its rendezvous hangs: the next one serves, and no workers are affected.
TEST_F(ListTest, AFrozenRendezvousIsPassedOver) {
  const std::vector<std::string> flags = {"--nnodes=3", "--rdzv-endpoint", Endpoints(2), "--max-restarts=1"};
  std::vector<Launched*> nodes;
  for (int rank = 0; rank < 3; ++rank) nodes.push_back(&Start(rank, flags));
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(Runs(rank, 3, 0)) << nodes[rank]->err();
  const pid_t frozen = ServerOf(*nodes[0]);
  ASSERT_GT(frozen, 0);
  kill(frozen, SIGSTOP);
  EXPECT_TRUE(Says(*nodes[1], "serving it here from now on")) << nodes[1]->err();
  for (Launched* node : nodes) EXPECT_TRUE(Says(*node, "the rendezvous is back at")) << node->err();
  EXPECT_THAT(Starts(), ElementsAre("pid-0-3-0", "pid-1-3-0", "pid-2-3-0")) << "none was started again";
  Go();
  for (Launched* node : nodes) EXPECT_EQ(node->Wait(kLong), 0) << node->err();
}

TEST_F(FailoverTest, AStandAloneRendezvousThatWasFrozenGoesOn) {
  const std::string port = absl::StrCat(*FreePort());
  TempDir output;
  Launched serve(output, COMPOSER_BINARY, {"serve", "--job=job", "--nodes=2", "--port", port});
  ASSERT_TRUE(WaitUntil([&] { return std::atoi(serve.out().c_str()) > 0; }, kLong));
  const std::vector<std::string> flags = {"--nnodes=2", absl::StrCat("--rdzv-endpoint=127.0.0.1:", port)};
  Launched& one = Start(0, flags);
  Launched& two = Start(1, flags);
  ASSERT_TRUE(Runs(0, 2, 0) && Runs(1, 2, 0)) << one.err() << two.err();
  serve.Signal(SIGSTOP);
  for (const Launched* node : {&one, &two}) {
    EXPECT_TRUE(Says(*node, "the rendezvous is away; the workers continue without it")) << node->err();
  }
  serve.Signal(SIGCONT);
  for (const Launched* node : {&one, &two}) EXPECT_TRUE(Says(*node, "the rendezvous is back at")) << node->err();
  EXPECT_THAT(Starts(), ElementsAre("pid-0-2-0", "pid-1-2-0")) << "none was started again";
  Go();
  EXPECT_EQ(one.Wait(kLong), 0) << one.err();
  EXPECT_EQ(two.Wait(kLong), 0) << two.err();
  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0);
}

// A launcher that is killed and started again is the same node: its vote counts once, for the world it was in.
TEST_F(FailoverTest, AKilledLauncherOfAListRemembersWhatItWasIn) {
  const std::vector<std::string> flags = {"--nnodes=2:3",   "--rdzv-endpoint",  Endpoints(2),
                                          "--last-call=20", "--max-restarts=3", "--grow=now"};
  Launched& first = Start(0, flags);
  Launched& second = Start(1, flags);
  Launched& third = Start(2, flags);
  ASSERT_TRUE(Runs(0, 3, 0) && Runs(1, 3, 0) && Runs(2, 3, 0)) << first.err() << second.err() << third.err();
  ASSERT_EQ(Memories(2).size(), 1u);
  const std::string before = *ReadFile(homes_[2]->Path(absl::StrCat("runtime/", Memories(2)[0])));
  third.Signal(SIGKILL);
  EXPECT_EQ(third.Wait(), 137);
  Launched& again = Start(2, flags);
  EXPECT_TRUE(Runs(2, 3, 1) || Runs(2, 3, 2)) << again.err() << first.err();
  ASSERT_EQ(Memories(2).size(), 1u);
  const std::string after = *ReadFile(homes_[2]->Path(absl::StrCat("runtime/", Memories(2)[0])));
  EXPECT_NE(after, before) << "it has heard of a newer world";
  EXPECT_EQ(after.substr(0, 24), before.substr(0, 24)) << "and has kept its name";
  Go();
  for (Launched* node : {&first, &second, &again}) EXPECT_EQ(node->Wait(kLong), 0) << node->err();
  for (const int rank : {0, 1, 2}) EXPECT_THAT(Memories(rank), IsEmpty()) << "the job is done: nothing to remember";
}

// One node remembers a run that ended without it; the job is started anew on all nodes.
TEST_F(FailoverTest, AJobStartedAnewIsNotHeldUpByANodeThatRemembers) {
  const std::vector<std::string> flags = {"--nnodes=2:3", "--rdzv-endpoint", Endpoints(2), "--last-call=2",
                                          "--max-restarts=1"};
  Launched& first = Start(0, flags);
  Launched& second = Start(1, flags);
  Launched& third = Start(2, flags);
  ASSERT_TRUE(Runs(0, 3, 0) && Runs(1, 3, 0) && Runs(2, 3, 0)) << first.err() << second.err() << third.err();
  third.Signal(SIGKILL);
  EXPECT_EQ(third.Wait(), 137);
  Go();
  EXPECT_EQ(first.Wait(kLong), 0) << first.err();
  EXPECT_EQ(second.Wait(kLong), 0) << second.err();
  ASSERT_EQ(Memories(2).size(), 1u);
  std::vector<Launched*> again;
  for (const int rank : {0, 1, 2}) again.push_back(&Start(rank, flags));
  for (Launched* node : again) EXPECT_EQ(node->Wait(kLong), 0) << node->err();
  EXPECT_THAT(Memories(2), IsEmpty());
}

// In a large job a frozen launcher is detected late (rendezvous/worlds/timeouts.h). By then a peer's worker has exited
// with 69, which was reported first. The loss that explains it replaces it as the cause.
TEST_F(FailoverTest, ABetterCauseThatCameSecondIsNamed) {
  const std::vector<std::string> flags = {"--nnodes=2:4000", "--last-call=2", "--max-restarts=1", "--rdzv-endpoint",
                                          Endpoints(1)};
  const std::string unless_restarted =
      "test $TORCHELASTIC_RESTART_COUNT = 0 || exit 0; while ! test -e frozen; do sleep 0.05; done; ";
  Launched& first = Start(0, flags, unless_restarted + "sleep 60");
  Launched& second = Start(1, flags, unless_restarted + "exit 69");
  Launched& third = Start(2, flags, unless_restarted + "sleep 60");
  ASSERT_TRUE(Runs(0, 3, 0) && Runs(1, 3, 0) && Runs(2, 3, 0)) << first.err() << second.err() << third.err();
  third.Signal(SIGSTOP);
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("frozen"), "").ok());
  EXPECT_TRUE(Says(second, "exited with 69")) << second.err();
  EXPECT_THAT(first.err(), Not(HasSubstr("was lost")));
  EXPECT_TRUE(Says(first, "node 2 (")) << first.err();
  EXPECT_EQ(first.Wait(kLong), 0) << first.err();
  EXPECT_EQ(second.Wait(kLong), 0) << second.err();
  EXPECT_THAT(first.err(), HasSubstr("was lost: its connection to the rendezvous ended without a farewell"));
}

}  // namespace
}  // namespace composer
