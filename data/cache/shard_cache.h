// A bounded folder of fetched files that all processes of a node share: of those that need a file, one fetches it.
//
// There is no server, no shared memory and nothing to clean up: for each file there is a lock (file_lock.h), which
// readers hold shared as long as they use the file, and who fetches or evicts it holds alone. A file appears whole
// (`.part`, sync, rename) and is checked before its first use by a process; one that fails is fetched again. Who makes
// room, starts a `.part` or renames one holds the lock of the room, so that no file is missed when the room is counted.
// Eviction takes what was used longest ago, and only what the cache itself stored and nobody uses; a `.part` whose lock
// is free was left by a process that died, and goes first. The folder's other files are left alone.
//
// Layout, in <folder>/composer-shards: <name>.shard, <name>.part, <name>.lock, room.lock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/retry.h"
#include "data/cache/file_lock.h"
#include "storage/mapped_file.h"

namespace composer {

struct ShardCacheOptions {
  std::string folder;
  std::optional<int64_t> limit;  // bytes of all files; none: unbounded
  // For fetching. Stores retry requests themselves; this is also for bytes that are not what they should be.
  RetryPolicy retry = {.base = absl::Milliseconds(200), .cap = absl::Seconds(10), .max_tries = 5};
  // How long one fetch may take. A store that hangs cannot be stopped: its thread is left behind.
  absl::Duration fetch_timeout = absl::Minutes(10);
  // How long to wait for another process that fetches the same file, or for room that other files in use take.
  absl::Duration patience = absl::Minutes(10);
};

// What is kept.
struct CachedItem {
  std::string name;   // of files: unique for the content, letters, digits, '.', '_' and '-'
  std::string place;  // where it is fetched from, for messages
  int64_t bytes = 0;  // of the content
  std::function<absl::Status(absl::string_view content)> check;  // kDataLoss: fetch it again
  // Called in a thread of its own, which may outlive the call of Get: it shares the ownership of all that it uses.
  std::function<absl::StatusOr<std::string>()> fetch;  // its messages name the place
};

// A file in memory. As long as it lives, it is not evicted.
class CachedFile {
 public:
  CachedFile(std::shared_ptr<const MappedFile> file, FileLock lock) : file_(std::move(file)), lock_(std::move(lock)) {}
  absl::string_view bytes() const { return file_->bytes(); }

 private:
  const std::shared_ptr<const MappedFile> file_;
  const FileLock lock_;
};

// Thread-safe, and safe among processes.
class ShardCache {
 public:
  // Creates the folder. kInvalidArgument names the field; kUnimplemented: a file system without flock. `clock` must
  // outlive the cache.
  static absl::StatusOr<std::shared_ptr<ShardCache>> Open(ShardCacheOptions options, Clock& clock = RealClock::Get());

  // Returns the file, fetched if it is not there. Errors: those of `fetch` after the retries; kResourceExhausted when
  // the limit is too low for the files in use, or the disk full; kDeadlineExceeded when another process or the store
  // takes too long.
  absl::StatusOr<std::shared_ptr<const CachedFile>> Get(const CachedItem& item);
  // Evicts a file that turned out to be wrong although its check has passed; one that somebody uses stays.
  void Forget(const std::string& name);

 private:
  ShardCache(ShardCacheOptions options, std::string folder, Clock& clock)
      : options_(std::move(options)), folder_(std::move(folder)), clock_(clock) {}

  using FileVersion = std::tuple<std::string, uint64_t, int64_t, int64_t>;  // name, inode, time of the last change

  std::string PathOf(const std::string& name, absl::string_view kind) const;
  absl::StatusOr<std::shared_ptr<const MappedFile>> MapGood(const CachedItem& item);
  absl::StatusOr<std::string> FetchWithRetries(const CachedItem& item);
  absl::Status Keep(const CachedItem& item);
  absl::StatusOr<FileLock> LockRoom();
  absl::Status MakeRoom(int64_t bytes);
  absl::StatusOr<int> Reserve(const std::string& path, int64_t bytes);

  const ShardCacheOptions options_;
  const std::string folder_;
  Clock& clock_;
  absl::Mutex mutex_;
  std::set<FileVersion> checked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
