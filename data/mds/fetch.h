// An MDS data set in a store: its index and its shards, whole and checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/mds/index.h"
#include "storage/object_store.h"

namespace composer {

// Returns the key of a data set's file in its store; a data set in the store's top has the folder "".
std::string MdsKey(const std::string& folder, const std::string& name);

absl::StatusOr<MdsIndex> FetchMdsIndex(ObjectStore& store, const std::string& folder);

// Checks a file of a shard, compressed or not, that has been read.
using ShardFileCheck = absl::FunctionRef<absl::Status(const ShardFile& file, absl::string_view bytes)>;
// Returns the plain bytes of a shard (PartsOf). `check` sees what was stored, and what was decompressed from it.
// Messages name the place. kDataLoss: the file has another size than the index says, or is damaged.
absl::StatusOr<std::string> FetchShard(ObjectStore& store, const std::string& folder, const MdsShardInfo& info,
                                       ShardFileCheck check);

}  // namespace composer
