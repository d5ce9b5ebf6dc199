// Tests what a launcher remembers after it was killed.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/node_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

proto::MembershipRecord World(uint64_t generation) {
  proto::MembershipRecord record;
  record.set_generation(generation);
  record.set_world("w");
  record.set_nodes(3);
  record.set_node_rank(1);
  record.add_before()->set_nodes(4);
  return record;
}

class NodeMemoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<NodeMemory> Open(const std::string& identity = "job", const std::string& fresh = "fresh") {
    return *NodeMemory::Open(folder_.path(), identity, fresh);
  }
  // Returns the only file that is not a lock.
  std::string File() {
    const std::vector<std::string> names = *ListDir(folder_.path());
    for (const std::string& name : names) {
      if (name.find(".lock") == std::string::npos) return JoinPath(folder_.path(), name);
    }
    return "";
  }
  TempDir folder_;
};

TEST_F(NodeMemoryTest, TheNextLauncherKnowsNameAndWorld) {
  Open("job", "a-1")->Write(World(7));
  const auto next = Open("job", "a-2");
  EXPECT_EQ(next->node_id(), "a-1");
  EXPECT_EQ(next->record().SerializeAsString(), World(7).SerializeAsString());
  next->Write(World(8));
  EXPECT_EQ(next->record().generation(), 7u) << "as it was read";
  EXPECT_EQ(ParseNodeMemory(*ReadFile(File())).second.generation(), 8u);
}

TEST_F(NodeMemoryTest, NothingWasWritten) {
  EXPECT_EQ(Open("job", "a-1")->node_id(), "a-1");
  const auto next = Open("job", "a-2");
  EXPECT_EQ(next->node_id(), "a-2");
  EXPECT_EQ(next->record().generation(), 0u);
}

TEST_F(NodeMemoryTest, AnotherJobOrNodeHasItsOwn) {
  Open("job")->Write(World(7));
  EXPECT_EQ(Open("other")->record().generation(), 0u);
}

TEST_F(NodeMemoryTest, ForgottenInGoodOrderAndForGood) {
  const auto memory = Open();
  memory->Write(World(7));
  memory->Forget();
  memory->Write(World(8));  // a late message
  EXPECT_EQ(File(), "");
}

TEST_F(NodeMemoryTest, OldMemoryIsNone) {
  Open("job", "a-1")->Write(World(7));
  timespec times[2] = {};
  times[1] = absl::ToTimespec(absl::Now() - kMemoryLasts - absl::Seconds(1));
  times[0] = times[1];
  ASSERT_EQ(utimensat(AT_FDCWD, File().c_str(), times, 0), 0);
  EXPECT_EQ(Open("job", "a-2")->node_id(), "a-2");
}

TEST_F(NodeMemoryTest, TwoLaunchersOfOneHostDoNotShare) {
  Open("job", "first")->Write(World(7));
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready) + pipe(done), 0);
  const pid_t other = fork();  // the lock belongs to the process
  if (other == 0) {
    const auto memory = Open("job", "x");
    char byte = memory->node_id() == "first" ? '1' : '0';
    [[maybe_unused]] ssize_t ignored = write(ready[1], &byte, 1);
    ignored = read(done[0], &byte, 1);
    _exit(0);
  }
  char first = 0;
  ASSERT_EQ(read(ready[0], &first, 1), 1);
  EXPECT_EQ(first, '1');
  EXPECT_EQ(Open("job", "second")->node_id(), "second");
  close(done[1]);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  EXPECT_EQ(Open("job", "third")->node_id(), "first") << "a lock goes with its process";
}

TEST_F(NodeMemoryTest, HostileFilesAreNothing) {
  for (const std::string& text : {std::string(), std::string("garbage"), std::string(20'000, 'x'),
                                  NodeMemoryText("", World(7)), NodeMemoryText(std::string(600, 'n'), World(7))}) {
    EXPECT_EQ(ParseNodeMemory(text).first, "") << text.substr(0, 20);
  }
  EXPECT_EQ(ParseNodeMemory(NodeMemoryText("n", World(7))).second.nodes(), 3);
}

TEST_F(NodeMemoryTest, AFullOrMissingFolderDoesNotEndTheJob) {
  const auto memory = Open();
  ASSERT_TRUE(RemoveTree(folder_.path()).ok());
  memory->Write(World(7));
  memory->Write(World(8));
}

}  // namespace
}  // namespace composer
