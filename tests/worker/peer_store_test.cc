// Several nodes in one process, each with its folder, its launcher's services and a worker's view of them.
// SPDX-License-Identifier: Apache-2.0
#include "worker/peer_store.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/time/clock.h"
#include "launcher/peer_memory/peer_memory.h"
#include "launcher/workers/worker_hub.h"
#include "rendezvous/store/key_value_upstream.h"
#include "tests/conformance/object_store_suite.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Credentials TokenCredentials(const std::string& token) {
  auto credentials = Credentials::FromToken(token, "test", absl::Now());
  EXPECT_TRUE(credentials.ok()) << credentials.status();
  return *std::move(credentials);
}

struct Node {
  TempDir dir;
  std::unique_ptr<PeerMemory> memory;
  std::unique_ptr<WorkerHub> hub;

  explicit Node(const std::string& job = "job", const Credentials& credentials = Credentials()) {
    auto started =
        PeerMemory::Start({.folder = folder(), .job = job, .address = "127.0.0.1", .credentials = credentials});
    EXPECT_TRUE(started.ok()) << started.status();
    memory = *std::move(started);
    auto served =
        WorkerHub::Start({.socket_path = dir.Path("hub"),
                          .job = job,
                          .upstream = std::make_shared<KeyValueUpstream>(
                              "launcher", grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials())),
                          .handler = [](const WorkerHub::Report&) {},
                          .more_services = {memory->relay()}});
    EXPECT_TRUE(served.ok()) << served.status();
    hub = *std::move(served);
  }
  ~Node() { hub.reset(); }

  std::string folder() const { return dir.Path("memory"); }
  std::unique_ptr<PeerStore> Worker(const std::vector<std::string>& peers) const {
    return std::make_unique<PeerStore>(
        PeerStore::Options{.folder = folder(),
                           .hub = grpc::CreateChannel(hub->address(), grpc::InsecureChannelCredentials()),
                           .peers = peers});
  }
};

// A world in which the n-th store is that of a worker on node n.
struct World {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::unique_ptr<PeerStore>> stores;

  explicit World(int size, const Credentials& credentials = Credentials()) {
    for (int i = 0; i < size; ++i) nodes.push_back(std::make_unique<Node>("job", credentials));
    Connect();
  }
  // Connects the remaining nodes, as after a new generation.
  void Connect() {
    stores.clear();
    const int size = static_cast<int>(nodes.size());
    for (int i = 0; i < size; ++i) {
      std::vector<std::string> peers;
      for (const int peer : PeersInOrder(i, size)) peers.push_back(nodes[static_cast<size_t>(peer)]->memory->address());
      stores.push_back(nodes[static_cast<size_t>(i)]->Worker(peers));
    }
  }
};

std::vector<std::string> Keys(ObjectStore& store) { return store.List("").value_or(std::vector<std::string>{"?"}); }
std::string Content(ObjectStore& store, const std::string& key) { return GetObject(store, key, 100).value_or("?"); }

struct WorldOfThree : World {
  WorldOfThree() : World(3) {}
};

std::shared_ptr<ObjectStore> StoreInWorld() {
  const auto world = std::make_shared<WorldOfThree>();
  return {world->stores[0].get(), [world](ObjectStore*) {}};
}
INSTANTIATE_TEST_SUITE_P(Peers, ObjectStoreSuite, testing::Values(StoreInWorld));
INSTANTIATE_TEST_SUITE_P(OneNode, ObjectStoreSuite, testing::Values([] {
                           const auto folder = std::make_shared<TempDir>();
                           const auto store =
                               std::make_shared<PeerStore>(PeerStore::Options{.folder = folder->Path("m")});
                           return std::shared_ptr<ObjectStore>(store.get(), [folder, store](ObjectStore*) {});
                         }));

TEST(PeerStore, TheNextNodeComesFirst) {
  EXPECT_THAT(PeersInOrder(0, 1), IsEmpty());
  EXPECT_THAT(PeersInOrder(1, 3), ElementsAre(2, 0));
  EXPECT_THAT(PeersInOrder(2, 3), ElementsAre(0, 1));
}

TEST(PeerStore, WhatOneNodeWritesAllSee) {
  World world(3);
  const std::string large(5'000'000, 'x');  // several chunks
  ASSERT_TRUE(world.stores[0]->Put("a/b", {large, "end"}).ok());
  for (const auto& store : world.stores) {
    EXPECT_THAT(Keys(*store), ElementsAre("a/b"));
    EXPECT_EQ(store->Size("a/b").value_or(-1), static_cast<int64_t>(large.size() + 3));
    std::string tail(4, ' ');
    ASSERT_TRUE(store->Read("a/b", static_cast<int64_t>(large.size()) - 1, absl::MakeSpan(tail)).ok());
    EXPECT_EQ(tail, "xend");
  }
}

TEST(PeerStore, AnObjectLiesOnItsNodeAndTheNext) {
  World world(3);
  ASSERT_TRUE(world.stores[1]->PutIfAbsent("a", {"1"}).ok());
  EXPECT_FALSE(std::filesystem::exists(world.nodes[0]->folder() + "/a"));
  EXPECT_TRUE(std::filesystem::exists(world.nodes[1]->folder() + "/a"));
  EXPECT_TRUE(std::filesystem::exists(world.nodes[2]->folder() + "/a"));
}

TEST(PeerStore, AskingForTheSizeMovesNothing) {
  World world(3);
  ASSERT_TRUE(world.stores[1]->Put("step/a", {"123"}).ok());
  EXPECT_EQ(world.stores[0]->Size("step/a").value_or(-1), 3);
  EXPECT_FALSE(std::filesystem::exists(world.nodes[0]->folder() + "/step/a"));
  EXPECT_EQ(world.stores[0]->Size("step/b").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(world.stores[2]->Put("step/b", {"12"}).ok());
  EXPECT_EQ(world.stores[1]->Size("step/b").value_or(-1), 2) << "one that came after the folder was asked for";
}

TEST(PeerStore, AnyOneNodeMayBeLost) {
  for (size_t lost = 0; lost < 3; ++lost) {
    World world(3);
    for (size_t i = 0; i < 3; ++i)
      ASSERT_TRUE(world.stores[i]->Put(absl::StrCat("rank", i), {absl::StrCat("of ", i)}).ok());
    world.nodes.erase(world.nodes.begin() + static_cast<int>(lost));
    world.Connect();
    for (const auto& store : world.stores) {
      EXPECT_THAT(Keys(*store), ElementsAre("rank0", "rank1", "rank2"));
      for (int i = 0; i < 3; ++i) EXPECT_EQ(Content(*store, absl::StrCat("rank", i)), absl::StrCat("of ", i));
    }
  }
}

TEST(PeerStore, DeletesEverywhere) {
  World world(3);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(world.stores[i]->Put(absl::StrCat("step/rank", i), {"x"}).ok());
  ASSERT_TRUE(world.stores[0]->Put("other", {"x"}).ok());
  ASSERT_TRUE(world.stores[0]->DeleteTree("step").ok());
  for (const auto& store : world.stores) EXPECT_THAT(Keys(*store), ElementsAre("other"));
}

TEST(PeerStore, WithoutTheNextNodeItGoesOn) {
  World world(2);
  world.nodes.pop_back();
  ASSERT_TRUE(world.stores[0]->Put("a", {"1"}).ok());
  EXPECT_EQ(Content(*world.stores[0], "a"), "1");
}

TEST(PeerStore, WithTheJobsTokenAndNoOther) {
  World world(2, TokenCredentials("a-token-of-32-characters-at-least"));
  ASSERT_TRUE(world.stores[0]->Put("a", {"1"}).ok());
  EXPECT_EQ(Content(*world.stores[1], "a"), "1");

  const Node stranger("job", TokenCredentials("another-token-of-32-characters-xx"));
  const auto store = stranger.Worker({world.nodes[0]->memory->address()});
  EXPECT_EQ(store->List("").status().code(), absl::StatusCode::kUnauthenticated);
}

TEST(PeerMemory, AnotherJobIsRefused) {
  const Node node("ours");
  const Node stranger("theirs");
  const auto store = stranger.Worker({node.memory->address()});
  const absl::Status status = store->List("").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("job ours, not theirs"));
}

class PeerMemoryRpc : public testing::Test {
 protected:
  Node node_;
  std::unique_ptr<proto::PeerMemory::Stub> stub_ =
      proto::PeerMemory::NewStub(grpc::CreateChannel(node_.memory->address(), grpc::InsecureChannelCredentials()));
  grpc::Status Put(const std::string& key, const std::vector<std::string>& data, bool end) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    proto::PeerDone done;
    const auto writer = stub_->Put(&context, &done);
    proto::PeerChunk chunk;
    chunk.mutable_to()->set_job("job");
    chunk.mutable_to()->set_key(key);
    writer->Write(chunk);
    chunk.clear_to();
    for (const std::string& piece : data) {
      chunk.set_data(piece);
      writer->Write(chunk);
    }
    chunk.clear_data();
    if (end) writer->Write(chunk);
    writer->WritesDone();
    return writer->Finish();
  }
};

TEST_F(PeerMemoryRpc, AStreamThatIsCutOffLeavesNothing) {
  EXPECT_EQ(Put("a", {"1", "2"}, /*end=*/false).error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_TRUE(std::filesystem::is_empty(node_.folder()));
  EXPECT_TRUE(Put("a", {"1", "2"}, /*end=*/true).ok());
  std::string text;
  std::ifstream(node_.folder() + "/a") >> text;
  EXPECT_EQ(text, "12");
}

TEST_F(PeerMemoryRpc, KeysCannotLeaveTheFolder) {
  for (const char* key : {"../a", "/etc/passwd", "", ".hidden", "a//b", "a/../../b"}) {
    EXPECT_EQ(Put(key, {"x"}, true).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << key;
    grpc::ClientContext context;
    proto::PeerRequest request;
    request.set_job("job");
    request.set_key(key);
    proto::PeerDone done;
    EXPECT_EQ(stub_->Remove(&context, request, &done).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << key;
  }
  EXPECT_FALSE(std::filesystem::exists(node_.dir.Path("a")));
}

}  // namespace
}  // namespace composer
