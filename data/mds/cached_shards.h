// Shards of a data set in a store (a bucket, a folder elsewhere), fetched into a node's cache when they are first read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "data/cache/shard_cache.h"
#include "data/mds/reader.h"
#include "storage/object_store.h"

namespace composer {

// The name of a shard in a cache, unique for the content: another data set, or the same one written anew, gets another.
std::string ShardCacheName(absl::string_view location, const MdsShardInfo& info);

// The source for a reader of the index that FetchMdsIndex(*store, folder) gives. Size and hash of each shard are
// checked: `hash`, or if it is "" whichever the index has (xxhash first, which is the fastest). What the cache keeps is
// not compressed.
ShardSource CachedShards(std::shared_ptr<ShardCache> cache, std::shared_ptr<ObjectStore> store, std::string folder,
                         std::string hash = "");

// Fetches shards ahead of their use, one after the other on a thread of its own. Thread-safe.
class ShardsAhead {
 public:
  // fetch(shard) leaves the shard in the cache; its errors are left to who reads the shard. A shard is asked for again
  // only after `most` others, about as many as the cache can hold; so many may wait, and more are forgotten.
  ShardsAhead(std::function<void(size_t shard)> fetch, size_t most);
  // Waits for the fetch in progress.
  ~ShardsAhead();
  // Does not block.
  void Want(size_t shard);

 private:
  void Run();

  const std::function<void(size_t shard)> fetch_;
  const size_t most_;
  absl::Mutex mutex_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<size_t> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<size_t> recent_ ABSL_GUARDED_BY(mutex_);  // asked for
  std::set<size_t> known_ ABSL_GUARDED_BY(mutex_);     // those of recent_
  std::thread thread_;
};

}  // namespace composer
