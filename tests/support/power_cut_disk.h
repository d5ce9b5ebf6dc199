// An in-memory disk that knows what was synced. Each operation that changes it is one step; at the chosen step the
// power is cut, after which every call fails. Reboot then shows what a real disk may show: everything (kill -9 keeps
// the page cache), only what was synced, or every name but only synced contents (the classic empty file after a rename
// without fsync). Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "storage/file_system.h"

namespace composer {

class PowerCutDisk final : public FileSystem {
 public:
  enum class Loses { kNothing, kAllUnsynced, kUnsyncedContents };

  PowerCutDisk() { folders_.cached = folders_.durable = {"/"}; }

  // Cuts the power at step `step` from now on, counted from 0; a negative `step` means never. That step is half done (a
  // file) or not done at all.
  void CutAt(int step) ABSL_LOCKS_EXCLUDED(mutex_);
  void Reboot(Loses loses) ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_off() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes every step fail with this status from now on (a full disk: reading still works). OK makes them work again.
  void FailWrites(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Flips one bit of a file, synced or not.
  void FlipBit(const std::string& path, int64_t bit) ABSL_LOCKS_EXCLUDED(mutex_);
  void Truncate(const std::string& path, int64_t size) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status WriteNewFile(const std::string& path, absl::Span<const absl::string_view> pieces) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Link(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::StatusOr<int64_t> Size(const std::string& path) override;
  absl::Status Read(const std::string& path, int64_t offset, absl::Span<char> into) override;
  absl::StatusOr<std::vector<Entry>> List(const std::string& path) override;

 private:
  struct File {
    std::string cached;
    std::string durable;
  };
  template <typename T>
  struct Names {
    T cached;
    T durable;
  };
  absl::Status Step() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckOn() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  Names<std::map<std::string, std::shared_ptr<File>>> files_ ABSL_GUARDED_BY(mutex_);
  Names<std::set<std::string>> folders_ ABSL_GUARDED_BY(mutex_);
  int steps_left_ ABSL_GUARDED_BY(mutex_) = -1;
  bool off_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status write_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
