// Objects in this process's memory: for tests, and for checkpoints that need not outlive the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "storage/object_store.h"

namespace composer {

class MemoryStore final : public ObjectStore {
 public:
  absl::Status Put(const std::string& key, Pieces pieces) override;
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override;
  absl::StatusOr<int64_t> Size(const std::string& key) override;
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status Delete(const std::string& key) override;
  absl::Status DeleteTree(const std::string& folder) override;
  std::string Location(const std::string& key) const override { return "memory://" + key; }

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::string> objects_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
