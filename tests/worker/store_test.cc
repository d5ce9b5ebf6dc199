// Compares RendezvousStore with c10d's own HashStore: one suite of behaviours for both, then what only ours has.
// SPDX-License-Identifier: Apache-2.0
#include "worker/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/worker/store_world.h"

namespace composer {
namespace {

using Bytes = std::vector<uint8_t>;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::DistStoreError& error) {
    return error.what_without_backtrace();
  }
  return "no DistStoreError";
}

enum class Kind { kHashStore, kRendezvousStore };

class StoreConformanceTest : public ::testing::TestWithParam<Kind> {
 protected:
  StoreConformanceTest() {
    if (GetParam() == Kind::kHashStore) {
      store_ = c10::make_intrusive<c10d::HashStore>();
    } else {
      world_ = std::make_unique<testing::StoreWorld>();
      store_ = world_->NewStore();
    }
  }
  std::unique_ptr<testing::StoreWorld> world_;
  c10::intrusive_ptr<c10d::Store> store_;
};

TEST_P(StoreConformanceTest, SetAndGetAnyBytes) {
  store_->set("text", "hello");
  EXPECT_EQ(store_->get_to_str("text"), "hello");
  store_->set("bytes", Bytes{0, 255, 10, 0});
  EXPECT_EQ(store_->get("bytes"), (Bytes{0, 255, 10, 0}));
  store_->set("bytes", Bytes{});
  EXPECT_EQ(store_->get("bytes"), Bytes{});
}

TEST_P(StoreConformanceTest, GetWaitsForTheKey) {
  auto other = store_->clone();
  std::thread setter([&] { other->set("late", "v"); });
  EXPECT_EQ(store_->get_to_str("late"), "v");
  setter.join();
}

TEST_P(StoreConformanceTest, WaitTimesOutWithDistStoreError) {
  store_->set("a", "1");
  store_->wait({"a"});
  EXPECT_THROW(store_->wait({"a", "never"}, milliseconds(20)), c10::DistStoreError);
  store_->setTimeout(milliseconds(20));
  EXPECT_THROW(store_->get("never"), c10::DistStoreError);
}

TEST_P(StoreConformanceTest, AddCounts) {
  EXPECT_EQ(store_->add("n", 5), 5);
  EXPECT_EQ(store_->add("n", -2), 3);
  EXPECT_EQ(store_->get_to_str("n"), "3");
  EXPECT_EQ(store_->add("n", 0), 3);
}

TEST_P(StoreConformanceTest, CompareSet) {
  EXPECT_EQ(store_->compareSet("k", "guess", "new"), "guess");
  EXPECT_FALSE(store_->check({"k"}));
  EXPECT_EQ(store_->compareSet("k", "", "first"), "first");
  EXPECT_EQ(store_->compareSet("k", "wrong", "second"), "first");
  EXPECT_EQ(store_->compareSet("k", "first", "second"), "second");
  EXPECT_EQ(store_->get_to_str("k"), "second");
}

TEST_P(StoreConformanceTest, CheckDeleteCount) {
  store_->multiSet({"a", "b"}, {Bytes{1}, Bytes{2}});
  EXPECT_TRUE(store_->check({"a", "b"}));
  EXPECT_FALSE(store_->check({"a", "c"}));
  EXPECT_EQ(store_->getNumKeys(), 2);
  EXPECT_TRUE(store_->deleteKey("a"));
  EXPECT_FALSE(store_->deleteKey("a"));
  EXPECT_EQ(store_->getNumKeys(), 1);
}

TEST_P(StoreConformanceTest, MultiGetInOrderAndAppend) {
  EXPECT_TRUE(store_->hasExtendedApi());
  store_->multiSet({"a", "b"}, {Bytes{1}, Bytes{2}});
  EXPECT_EQ(store_->multiGet({"b", "a", "b"}), (std::vector<Bytes>{{2}, {1}, {2}}));
  store_->append("a", Bytes{7, 8});
  store_->append("new", Bytes{9});
  EXPECT_EQ(store_->get("a"), (Bytes{1, 7, 8}));
  EXPECT_EQ(store_->get("new"), Bytes{9});
}

TEST_P(StoreConformanceTest, PrefixStoreOnTop) {
  c10d::PrefixStore prefixed("group", store_);
  prefixed.set("k", "v");
  EXPECT_EQ(store_->get_to_str("group/k"), "v");
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformanceTest, ::testing::Values(Kind::kHashStore, Kind::kRendezvousStore),
                         [](const auto& kind) {
                           return kind.param == Kind::kHashStore ? "HashStore" : "RendezvousStore";
                         });

TEST(RendezvousStore, TimeoutNamesWaitAndKey) {
  testing::StoreWorld world;
  EXPECT_EQ(ErrorOf([&] { world.NewStore()->wait({"never"}, milliseconds(20)); }),
            "store of job \"job\", generation 1: wait: get: waited 20ms, key \"never\" is not there");
}

TEST(RendezvousStore, WaitWithoutLimitEndsWithTheGeneration) {
  testing::StoreWorld world;
  auto store = world.NewStore();
  std::string error;
  std::thread waiter([&] { error = ErrorOf([&] { store->wait({"never"}, c10d::Store::kNoTimeout); }); });
  world.EndGeneration("rank 1 was killed by signal 9");
  waiter.join();
  EXPECT_EQ(error, "store of job \"job\", generation 1: wait: generation 1 is over: rank 1 was killed by signal 9");
  EXPECT_THAT(ErrorOf([&] { store->set("k", "v"); }), HasSubstr("generation 1 is over: rank 1 was killed by signal 9"));
}

TEST(RendezvousStore, StaleGenerationIsNamed) {
  testing::StoreWorld world;
  auto store = world.NewStore(std::chrono::seconds(20), 0);
  EXPECT_THAT(ErrorOf([&] { store->add("k", 1); }), HasSubstr("generation 0 is not the current one, that is 1"));
}

TEST(RendezvousStore, LimitsAreValueErrors) {
  testing::StoreWorld world;
  auto store = world.NewStore();
  EXPECT_THROW(store->set(std::string(2000, 'k'), "v"), c10::ValueError);
  store->set("text", "forty");
  EXPECT_THROW(store->add("text", 1), c10::ValueError);
  EXPECT_THROW(store->multiSet({"a", "b"}, {Bytes{1}}), c10::ValueError);
  EXPECT_THROW(store->queueLen("q"), c10::NotImplementedError);
}

TEST(RendezvousStore, LargestValueTravels) {
  testing::StoreWorld world;
  auto store = world.NewStore();
  const Bytes value(16 << 20, 42);
  store->set("large", value);
  EXPECT_EQ(store->get("large"), value);
}

}  // namespace
}  // namespace composer
