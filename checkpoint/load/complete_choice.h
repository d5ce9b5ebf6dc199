// This chooses a checkpoint without reading it: for the memory tier, whose files lie on many nodes, and where each rank
// checks its own part when it loads it (every checksum is verified then).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "checkpoint/exchange/rank_exchange.h"
#include "checkpoint/load/reader.h"
#include "storage/object_store.h"

namespace composer {

// Returns the newest checkpoint whose manifest is sound and whose files are all listed. Makes two of the store's calls
// for the list, and one or two for each manifest examined. Fails only when the store cannot be listed.
absl::StatusOr<CheckpointChoice> FindNewestComplete(ObjectStore& store);

// Returns the same choice on all ranks: rank 0 chooses and sends it to the others.
absl::StatusOr<CheckpointChoice> ChooseComplete(ObjectStore& store, RankExchange& exchange);

}  // namespace composer
