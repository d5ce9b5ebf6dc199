// Runs the real binary on "several nodes": launchers on one machine that meet at an endpoint, as they would on several.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "launcher/workers/node_resources.h"
#include "net/network_facts.h"
#include "rendezvous/transport/listening_socket.h"
#include "tests/launcher/launched.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPrint[] =
    "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $NODE_RANK $GROUP_RANK $GROUP_WORLD_SIZE $MASTER_ADDR "
    "$MASTER_PORT > env-$RANK";

class NodesTest : public testing::Test {
 protected:
  NodesTest() : port_(absl::StrCat(*FreePort())) {}

  // Starts a launcher, which has its own folder for its output.
  Launched& Start(std::vector<std::string> arguments, const std::string& binary = COMPOSER_BINARY) {
    outputs_.push_back(std::make_unique<TempDir>());
    if (arguments[0] != "--join-timeout") arguments.insert(arguments.begin(), {"--join-timeout", "20"});
    nodes_.push_back(std::make_unique<Launched>(*outputs_.back(), binary, std::move(arguments)));
    return *nodes_.back();
  }
  std::vector<std::string> Node(int rank, int nproc, int world_size, const std::string& script) {
    return {"-n",
            absl::StrCat(nproc),
            "--world_size",
            absl::StrCat(world_size),
            "--node_rank",
            absl::StrCat(rank),
            "--master_addr",
            "127.0.0.1",
            "--master_port",
            port_,
            "-c",
            "sh",
            "-c",
            absl::StrCat("cd ", dir_.path(), ";", script)};
  }
  // Waits until a node tries to connect to the rendezvous, which is not there yet.
  void ExpectAConnection() {
    const int listener = *ListenOnTcp("127.0.0.1", std::stoi(port_));
    EXPECT_TRUE(IsReadyBy(listener, POLLIN, absl::Now() + absl::Seconds(20)));
    close(listener);
  }
  // Waits until a node has connected to the rendezvous, which it does to join.
  void ExpectANodeAtTheRendezvous() {
    const std::string established = absl::StrFormat("0100007F:%04X 01 ", std::stoi(port_));  // remote address, state
    const auto is_there = [&] {
      return absl::StrContains(*ReadFile("/proc/net/tcp") + *ReadFile("/proc/net/tcp6"), established);
    };
    EXPECT_TRUE(WaitUntil(is_there, absl::Seconds(20)));
  }
  std::vector<std::string> Words(const std::string& file) {
    return absl::StrSplit(ReadFile(dir_.Path(file)).value_or(""), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  }

  TempDir dir_;
  const std::string port_;
  std::vector<std::unique_ptr<TempDir>> outputs_;
  std::vector<std::unique_ptr<Launched>> nodes_;
};

TEST_F(NodesTest, TheSecondWaitsForTheFirstAndRanksAreAsGiven) {
  Launched& second = Start(Node(1, 2, 4, kPrint));  // started before node 0, whose rendezvous it needs
  ExpectAConnection();
  Launched& first = Start(Node(0, 2, 4, kPrint));
  EXPECT_EQ(first.Wait(), 0) << first.err();
  EXPECT_EQ(second.Wait(), 0) << second.err();
  std::vector<std::string> port;
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<std::string> words = Words(absl::StrCat("env-", rank));
    ASSERT_EQ(words.size(), 9u) << rank;
    const std::string node = absl::StrCat(rank / 2);
    EXPECT_THAT(
        std::vector<std::string>(words.begin(), words.end() - 1),
        testing::ElementsAre(absl::StrCat(rank), absl::StrCat(rank % 2), "4", "2", node, node, "2", "127.0.0.1"));
    EXPECT_NE(words.back(), port_) << "MASTER_PORT of scripts is their own";
    port.push_back(words.back());
  }
  EXPECT_EQ(std::set<std::string>(port.begin(), port.end()).size(), 1u) << "all have the same MASTER_PORT";
}

TEST_F(NodesTest, NodesOfDifferentSize) {
  const auto flags = [&](int nproc, int node_rank, int base_rank) {
    std::vector<std::string> arguments = Node(node_rank, nproc, 3, kPrint);
    arguments.insert(arguments.begin(), {"--nnodes=2", absl::StrCat("--base_rank=", base_rank)});
    return arguments;
  };
  Launched& first = Start(flags(2, 0, 0));
  Launched& second = Start(flags(1, 1, 2));
  EXPECT_EQ(first.Wait(), 0) << first.err();
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(Words("env-2"), testing::Contains("3"));
  EXPECT_EQ(Words("env-2").at(1), "0");
}

TEST_F(NodesTest, ElasticLaunchersFindTheirHost) {
  const std::vector<std::string> arguments = {"--nnodes=1:4",
                                              "--nproc-per-node=1",
                                              absl::StrCat("--rdzv-endpoint=localhost:", port_),
                                              "--rdzv-id=job",
                                              "--last-call=2",
                                              "/bin/sh",
                                              "-c",
                                              absl::StrCat("cd ", dir_.path(), ";", kPrint)};
  Launched& one = Start(arguments);
  Launched& two = Start(arguments);
  EXPECT_EQ(one.Wait(), 0) << one.err();
  EXPECT_EQ(two.Wait(), 0) << two.err();
  EXPECT_EQ(Words("env-0").at(2), "2");
  EXPECT_EQ(Words("env-1").at(2), "2");
}

TEST_F(NodesTest, AStandAloneRendezvous) {
  TempDir output;
  Launched serve(output, COMPOSER_BINARY, {"serve", "--job=job", "--nodes=2", absl::StrCat("--port=", port_)});
  const std::vector<std::string> arguments = {"--nnodes=2",
                                              "--nproc-per-node=1",
                                              "--rdzv-id=job",
                                              absl::StrCat("--rdzv-endpoint=127.0.0.1:", port_),
                                              "/bin/sh",
                                              "-c",
                                              absl::StrCat("cd ", dir_.path(), ";", kPrint)};
  ASSERT_TRUE(WaitUntil([&] { return std::atoi(serve.out().c_str()) > 0; }, absl::Seconds(10)));
  Launched& one = Start(arguments);
  Launched& two = Start(arguments);
  EXPECT_EQ(one.Wait(), 0) << one.err();
  EXPECT_EQ(two.Wait(), 0) << two.err();
  EXPECT_EQ(Words("env-1").at(2), "2");
  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0);
}

TEST_F(NodesTest, AMasterThatIsNotThere) {
  std::vector<std::string> arguments = Node(1, 1, 2, "true");
  arguments.insert(arguments.begin(), {"--join-timeout", "0.5"});
  Launched& node = Start(arguments);
  EXPECT_EQ(node.Wait(), 69);
  EXPECT_THAT(node.err(),
              AllOf(HasSubstr(absl::StrCat("cannot reach the rendezvous at 127.0.0.1:", port_, ", tried for ")),
                    HasSubstr("connection refused"), HasSubstr("from 127.0.0.1 on lo"),
                    HasSubstr("is the launcher of node 0 running")));
}

TEST_F(NodesTest, ASignalEndsTheWaitForTheMaster) {
  Launched& node = Start(Node(1, 1, 2, "true"));
  ExpectAConnection();
  node.Signal(SIGINT);
  EXPECT_EQ(node.Wait(absl::Seconds(10)), 130);
}

TEST_F(NodesTest, AMasterThatIsSomethingElse) {
  Launched other(dir_, "/usr/bin/python3",
                 {"-c", absl::StrCat("import socket,time; s=socket.socket(); s.bind(('127.0.0.1',", port_,
                                     ")); s.listen(); print('up', flush=True); time.sleep(60)")});
  ASSERT_TRUE(WaitUntil([&] { return other.out() == "up\n"; }, absl::Seconds(10)));
  std::vector<std::string> arguments = Node(1, 1, 2, "true");
  arguments.insert(arguments.begin(), {"--join-timeout", "1"});
  Launched& node = Start(arguments);
  EXPECT_EQ(node.Wait(), 69);
  EXPECT_THAT(node.err(), HasSubstr("nobody there answers as a rendezvous"));
}

TEST_F(NodesTest, ANodeThatNeverComes) {
  std::vector<std::string> arguments = Node(0, 1, 2, "true");
  arguments.insert(arguments.begin(), {"--join-timeout", "1"});
  Launched& node = Start(arguments);
  EXPECT_EQ(node.Wait(), 69);
  EXPECT_THAT(node.err(), AllOf(HasSubstr("no world within 1s"), HasSubstr("too few nodes have joined")));
}

// YAML jobs whose workers are played by fake_worker.
class JobNodesTest : public NodesTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(dir_.Path("bin"));
    std::filesystem::copy(COMPOSER_BINARY, dir_.Path("bin/composer"));
    std::filesystem::copy(FAKE_WORKER_BINARY, dir_.Path("bin/composer_worker"));
  }
  std::vector<std::string> Job(int rank, const std::string& yaml) {
    const std::string path = dir_.Path(absl::StrCat("job-", rank, ".yaml"));
    EXPECT_TRUE(AtomicWriteFile(path, absl::StrCat("run_name: job\nrun_folder: ", dir_.Path("run"), "\n", yaml)).ok());
    return {"-n",
            "1",
            "--world_size",
            "2",
            "--node_rank",
            absl::StrCat(rank),
            "--master_addr",
            "127.0.0.1",
            "--master_port",
            port_,
            path};
  }
  std::string Binary() { return dir_.Path("bin/composer"); }
};

TEST_F(JobNodesTest, OneRunFolderForAllNodes) {
  Launched& first = Start(Job(0, kFakeJob), Binary());
  Launched& second = Start(Job(1, kFakeJob), Binary());
  EXPECT_EQ(first.Wait(), 0) << first.err();
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_TRUE(PathExists(dir_.Path("run/logs/gen-001/rank-00000.log")));
  EXPECT_TRUE(PathExists(dir_.Path("run/logs/gen-001/rank-00001.log")));
  EXPECT_THAT(*ReadFile(dir_.Path("run/summary.json")), HasSubstr("\"world_size\": 2"));
}

TEST_F(JobNodesTest, AnotherConfigurationIsRefused) {
  Launched& first = Start(Job(0, kFakeJob), Binary());
  ExpectANodeAtTheRendezvous();
  Launched& second = Start(Job(1, absl::StrCat(kFakeJob, "seed: 6\n")), Binary());
  EXPECT_EQ(second.Wait(), 64);
  EXPECT_THAT(second.err(), AllOf(HasSubstr("config_hash"), HasSubstr("all nodes of a job must have the same")));
  first.Signal(SIGTERM);
  EXPECT_NE(first.Wait(), -1);
}

TEST_F(JobNodesTest, AnotherViewOfTheDataIsRefused) {
  // The words are the same, but a path depends on the node.
  const std::string yaml =
      "model: {name: gpt}\ntrain_dataloader: {name: text_bytes, path: data}\nglobal_train_batch_size: 1\nmax_duration: "
      "1ep\n";
  Launched& first = Start(Job(0, yaml), Binary());
  ExpectANodeAtTheRendezvous();
  outputs_.push_back(std::make_unique<TempDir>());
  ASSERT_TRUE(AtomicWriteFile(outputs_.back()->Path("data"), "text").ok());
  std::vector<std::string> arguments = Job(1, yaml);
  arguments.insert(arguments.begin(), {"--join-timeout", "20"});
  Launched second(*outputs_.back(), Binary(), arguments);
  EXPECT_EQ(second.Wait(), 64);
  EXPECT_THAT(second.err(),
              AllOf(HasSubstr("train_dataloader.path \"data\": file of 4 bytes here, but missing on node"),
                    HasSubstr("must see the same data")));
  first.Signal(SIGTERM);
  EXPECT_NE(first.Wait(), -1);
}

}  // namespace
}  // namespace composer
