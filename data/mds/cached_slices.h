// Shards of a data set in a store of which only what is read is fetched, by range, into a node's cache.
//
// The cache keeps a shard's head (its number of samples and their offsets) and slices: the offsets and bytes of some
// samples, as an MDS shard of their own. Each is an item of the cache (shard_cache.h) with all that this promises, so
// that of all processes one fetches a slice, and none is ever half there.
//
// The index's hashes are those of whole shards and say nothing about a slice. What is checked of bytes from the store
// is the size of the shard, its offsets, and that each sample's values fill it exactly; bits that flip within a value
// are found by who can (a network's checksums, a decoder), so those who need hashes fetch whole shards. What is kept
// ends with its checksum (xxh3), so that damage in the cache is found, and mended by fetching it again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "data/cache/shard_cache.h"
#include "data/mds/reader.h"
#include "storage/object_store.h"

namespace composer {

// kInvalidArgument names a shard that can only be fetched whole, and why: it is compressed, or consists of text rows.
absl::Status CheckSlices(const MdsIndex& index);

// The source for a reader of slices of the index that FetchMdsIndex(*store, folder) gives, and CheckSlices accepts.
ShardSource CachedSlices(std::shared_ptr<ShardCache> cache, std::shared_ptr<ObjectStore> store, std::string folder);

}  // namespace composer
