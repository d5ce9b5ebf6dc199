// An ObjectStore whose writes wait at a gate, so that what happens while a save is in flight can be tested without
// sleeping.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "storage/object_store.h"

namespace composer {

class GateStore final : public ObjectStore {
 public:
  // inner must outlive this store.
  explicit GateStore(ObjectStore& inner) : inner_(inner) {}
  // Must be called from one thread.
  void Open() {
    if (!gate_.HasBeenNotified()) gate_.Notify();
  }
  void GiveUp() override { Open(); }

  absl::Status Put(const std::string& key, Pieces pieces) override {
    gate_.WaitForNotification();
    return inner_.Put(key, pieces);
  }
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override { return inner_.PutIfAbsent(key, pieces); }
  absl::StatusOr<int64_t> Size(const std::string& key) override { return inner_.Size(key); }
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override {
    return inner_.Read(key, offset, into);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override { return inner_.List(folder); }
  absl::Status Delete(const std::string& key) override { return inner_.Delete(key); }
  absl::Status DeleteTree(const std::string& folder) override { return inner_.DeleteTree(folder); }
  std::string Location(const std::string& key) const override { return inner_.Location(key); }

 private:
  ObjectStore& inner_;
  absl::Notification gate_;
};

}  // namespace composer
