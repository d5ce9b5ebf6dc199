// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/tcp_store.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace composer {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Returns a port that was free a moment ago.
int AnyPort() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  return c10d::TCPStore("127.0.0.1", options).getPort();
}

RankEnvironment Place(int rank, int port) {
  RankEnvironment place;
  place.rank = rank;
  place.world_size = place.local_world_size = 2;
  place.master_address = "127.0.0.1";
  place.master_port = port;
  place.store_prefix = "composer/x/";
  return place;
}

TEST(TcpStore, RankZeroServesAndIsTheLastToLeave) {
  const int port = AnyPort();
  const RankEnvironment first = Place(0, port), second = Place(1, port);
  auto store = ConnectTcpStore(first, milliseconds(20000));
  std::thread other([&] {
    auto theirs = ConnectTcpStore(second, milliseconds(20000));
    EXPECT_EQ(theirs->get_to_str("k"), "v");
    theirs->set("done", "1");
    LeaveTcpStore(second, *theirs, milliseconds(20000));
  });
  store->set("k", std::string("v"));
  LeaveTcpStore(first, *store, milliseconds(20000));
  EXPECT_TRUE(store->check({"done"})) << "rank 0 left before the other was done";
  other.join();
}

TEST(TcpStore, AnAgentsStoreIsOnlyUsed) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  c10d::TCPStore agent("127.0.0.1", options);
  RankEnvironment place = Place(0, agent.getPort());
  place.agent_store = true;
  auto store = ConnectTcpStore(place, milliseconds(20000));
  store->set("k", std::string("v"));
  EXPECT_EQ(agent.get_to_str("composer/x//k"), "v");
  LeaveTcpStore(place, *store, milliseconds(20000));  // waits for nobody
}

TEST(TcpStore, NobodyThere) {
  try {
    ConnectTcpStore(Place(1, AnyPort()), milliseconds(300));
    FAIL() << "connected";
  } catch (const c10::DistStoreError& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("rank 1 cannot reach the store at 127.0.0.1:"));
  }
}

TEST(TcpStore, AddressOfThisNode) {
  EXPECT_EQ(AddressTowards("127.0.0.1"), "");
  EXPECT_EQ(AddressTowards("localhost"), "");
}

}  // namespace
}  // namespace composer
