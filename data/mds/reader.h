// Reads samples of an MDS data set by number: named, typed views of bytes, without copies.
//
// Where shards come from is a function: LocalShards maps those of a folder; the cache's fetch them whole
// (data/mds/cached_shards.h) or in slices (data/mds/cached_slices.h). A slice, which else is the whole shard, stays
// open for a while after its last use, at most `max_open` of them.
// Thread-safe; a sample belongs to one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "data/mds/index.h"
#include "data/mds/shard.h"

namespace composer {

// Returns a slice of a shard as an MDS shard, uncompressed; sources of whole shards are asked for these only. The
// shard's hash has been checked if that was asked for.
using ShardSource = std::function<absl::StatusOr<OwnedBytes>(const MdsShardInfo& info, ShardSlice slice)>;

// Maps shards of a folder; those that lie there only compressed, and rows, are decoded into memory. `hash`: checks this
// hash of each shard when it is opened, "" none; kInvalidArgument when the index does not have it.
ShardSource LocalShards(std::string folder, std::string hash = "");
// Checks size and hash of a file of a shard; kDataLoss when they differ from the index's.
absl::Status CheckShardFile(const ShardFile& file, absl::string_view bytes, absl::string_view hash);

// Reads index.json of a folder.
absl::StatusOr<MdsIndex> ReadMdsIndex(const std::string& folder);

class MdsReader;

struct MdsSample {
  std::vector<absl::string_view> columns;  // in the order of the index; valid until the next Read into this sample
  // Internal: what keeps the views alive, a slice.
  std::shared_ptr<const MdsShard> shard;
  size_t slice = 0;
  const MdsReader* reader = nullptr;
};

class MdsReader {
 public:
  // kInvalidArgument when shards have different columns. `max_open` >= 1. With `slice_bytes` >= 1, shards are read in
  // slices of as many samples as have so many bytes on average.
  static absl::StatusOr<std::unique_ptr<MdsReader>> Create(MdsIndex index, ShardSource source, size_t max_open = 256,
                                                           std::optional<int64_t> slice_bytes = std::nullopt);

  int64_t size() const { return first_sample_.back(); }
  const std::vector<MdsColumn>& columns() const { return index_.shards[0].columns; }
  const MdsIndex& index() const { return index_; }
  // Samples of each shard, for an order's streams.
  std::vector<int64_t> ShardSizes() const;
  // The number of a sample's slice, through all shards, 0 <= id < size(). O(1).
  size_t SliceOf(int64_t id) const;
  // Lets the source get a slice, which is not opened.
  absl::Status Fetch(size_t slice) const;

  // kOutOfRange for an id that is not in [0, size()); errors of the source; kDataLoss. Messages name the shard.
  absl::Status Read(int64_t id, MdsSample& sample);

 private:
  MdsReader(MdsIndex index, ShardSource source, size_t max_open, std::optional<int64_t> slice_bytes);
  absl::StatusOr<OwnedBytes> Get(size_t slice) const;
  absl::StatusOr<std::shared_ptr<const MdsShard>> OpenSlice(size_t slice);
  const MdsShardInfo& ShardOf(size_t slice) const { return index_.shards[shard_of_slice_[slice]]; }
  int64_t NumberInShard(int64_t id, size_t slice) const { return id - shard_begins_[shard_of_slice_[slice]]; }

  const MdsIndex index_;
  const ShardSource source_;
  const size_t max_open_;
  std::vector<int64_t> shard_begins_;     // the first sample of each shard
  std::vector<int64_t> first_sample_;     // of each slice, and the end
  std::vector<uint32_t> shard_of_slice_;  // of each slice
  std::vector<uint32_t> slice_of_run_;    // the slice of every kRun-th sample
  static constexpr int kRunBits = 6;

  absl::Mutex mutex_;
  std::vector<std::shared_ptr<const MdsShard>> open_ ABSL_GUARDED_BY(mutex_);
  std::deque<size_t> opened_ ABSL_GUARDED_BY(mutex_);  // in the order of opening
};

}  // namespace composer
