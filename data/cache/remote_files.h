// Files of a data set that lie in stores, and the node's folder into which they are fetched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "data/cache/shard_cache.h"
#include "storage/object_store.h"

namespace composer {

// How files in stores are fetched: as mosaicml-streaming's shards are (streaming_source.h).
struct FetchOptions {
  std::string local;                   // the folder for those that are fetched; "": all paths are on this node
  std::optional<int64_t> cache_limit;  // bytes of fetched files on this node; none: unbounded
  int download_retry = 4;
  absl::Duration download_timeout = absl::Minutes(10);  // for one fetch of a file
};

// Opens the cache of these options, which all processes of the node share.
absl::StatusOr<std::shared_ptr<ShardCache>> OpenFetchCache(const FetchOptions& options);

struct RemoteFile {
  std::shared_ptr<ObjectStore> store;
  std::string key;
};

// Returns the objects that URLs name, in their order: an object whose name has one of these endings; a glob of such
// names in a folder; or a folder, of which all such objects are meant. Each folder's store is opened once.
// kNotFound names a URL that has none.
absl::StatusOr<std::vector<RemoteFile>> FindRemoteFiles(const std::vector<std::string>& urls,
                                                        const std::vector<std::string>& endings,
                                                        const StoreOpener& open_store);

}  // namespace composer
