// SPDX-License-Identifier: Apache-2.0
#include "storage/check_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/memory_store.h"

namespace composer {
namespace {

// A store that has one fault.
class FaultyStore final : public ObjectStore {
 public:
  enum class Fault { kNone, kReadOnly, kCreatesTwice, kKeeps };
  explicit FaultyStore(Fault fault) : fault_(fault) {}
  absl::Status Put(const std::string& key, Pieces pieces) override {
    return fault_ == Fault::kReadOnly ? absl::PermissionDeniedError("no") : memory_.Put(key, pieces);
  }
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override {
    if (fault_ == Fault::kReadOnly) return absl::PermissionDeniedError("no");
    return fault_ == Fault::kCreatesTwice ? memory_.Put(key, pieces) : memory_.PutIfAbsent(key, pieces);
  }
  absl::Status Delete(const std::string& key) override {
    return fault_ == Fault::kKeeps ? absl::OkStatus() : memory_.Delete(key);
  }
  absl::Status DeleteTree(const std::string& folder) override {
    return fault_ == Fault::kKeeps ? absl::OkStatus() : memory_.DeleteTree(folder);
  }
  absl::StatusOr<int64_t> Size(const std::string& key) override { return memory_.Size(key); }
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override {
    return memory_.Read(key, offset, into);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override { return memory_.List(folder); }
  std::string Location(const std::string& key) const override { return memory_.Location(key); }

 private:
  Fault fault_;
  MemoryStore memory_;
};

// Returns what a check of the store finds wrong.
std::vector<std::string> Wrong(FaultyStore::Fault fault) {
  FaultyStore store(fault);
  std::vector<std::string> wrong;
  for (const StoreFinding& finding : CheckStore(store, CheckFolderName())) {
    if (!finding.status.ok()) wrong.push_back(finding.what);
  }
  return wrong;
}

TEST(CheckStore, AGoodStoreHasNoFaultAndIsLeftEmpty) {
  MemoryStore store;
  const auto findings = CheckStore(store, "composer-check-1");
  EXPECT_EQ(findings.size(), 7u);
  for (const StoreFinding& finding : findings) EXPECT_TRUE(finding.status.ok()) << finding.what << finding.status;
  EXPECT_TRUE(store.List("")->empty());
}

TEST(CheckStore, EachFaultIsFound) {
  using Fault = FaultyStore::Fault;
  EXPECT_THAT(Wrong(Fault::kNone), testing::IsEmpty());
  EXPECT_THAT(Wrong(Fault::kReadOnly), testing::ElementsAre("create an object"));
  EXPECT_THAT(Wrong(Fault::kCreatesTwice), testing::Contains("refuse to create it twice"));
  EXPECT_THAT(Wrong(Fault::kKeeps), testing::ElementsAre("delete it"));
}

TEST(CheckStore, ItsFolderIsAKey) {
  EXPECT_TRUE(CheckKey(CheckFolderName()).ok());
  EXPECT_NE(CheckFolderName(), CheckFolderName());
}

}  // namespace
}  // namespace composer
