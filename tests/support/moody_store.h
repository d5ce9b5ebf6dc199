// A store whose first reads fail, and whose next ones lie. Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/object_store.h"

namespace composer {

class MoodyStore final : public ObjectStore {
 public:
  // `place` is what its locations begin with.
  MoodyStore(std::shared_ptr<ObjectStore> store, std::string place, int failures, int lies)
      : store_(std::move(store)), place_(std::move(place)), failures_(failures), lies_(lies) {}
  absl::Status Put(const std::string& key, Pieces pieces) override { return store_->Put(key, pieces); }
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override { return store_->PutIfAbsent(key, pieces); }
  absl::StatusOr<int64_t> Size(const std::string& key) override { return store_->Size(key); }
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override {
    ++reads;
    if (failures_-- > 0) return absl::UnavailableError("the store is busy");
    const absl::Status status = store_->Read(key, offset, into);
    if (lies_-- > 0) std::fill(into.begin(), into.end(), 'x');
    return status;
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override { return store_->List(folder); }
  absl::Status Delete(const std::string& key) override { return store_->Delete(key); }
  absl::Status DeleteTree(const std::string& folder) override { return store_->DeleteTree(folder); }
  std::string Location(const std::string& key) const override { return place_ + key; }

  std::atomic<int> reads = 0;

 private:
  const std::shared_ptr<ObjectStore> store_;
  const std::string place_;
  std::atomic<int> failures_, lies_;
};

}  // namespace composer
