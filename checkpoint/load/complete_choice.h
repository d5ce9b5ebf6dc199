// Choosing a checkpoint without reading it: for the memory tier, whose files lie on many nodes, and where each rank finds
// out what its own part is worth when it loads it (every checksum is verified then).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "checkpoint/exchange/rank_exchange.h"
#include "checkpoint/load/reader.h"
#include "storage/object_store.h"

namespace composer {

// The newest checkpoint whose manifest is sound and whose files are all listed. Two of the store's calls for the list, one
// or two for each manifest looked at. Errors: only when the store cannot be listed.
absl::StatusOr<CheckpointChoice> FindNewestComplete(ObjectStore& store);

// The same on all ranks: rank 0 looks and tells the others.
absl::StatusOr<CheckpointChoice> ChooseComplete(ObjectStore& store, RankExchange& exchange);

// OK on every rank when it is on all, else the error of the lowest rank that has one, on every rank.
absl::Status AgreeOn(const absl::Status& own, RankExchange& exchange);

}  // namespace composer
