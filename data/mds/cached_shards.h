// Shards of a data set in a store (a bucket, a folder elsewhere), fetched into a node's cache when they are first read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "data/cache/shard_cache.h"
#include "data/mds/reader.h"
#include "storage/object_store.h"

namespace composer {

// The source for a reader of the index that FetchMdsIndex(*store, folder) gives. Size and hash of each shard are
// checked: `hash`, or if it is "" whichever the index has (xxhash first, which is the fastest). What the cache keeps is
// not compressed.
ShardSource CachedShards(std::shared_ptr<ShardCache> cache, std::shared_ptr<ObjectStore> store, std::string folder,
                         std::string hash = "");

}  // namespace composer
