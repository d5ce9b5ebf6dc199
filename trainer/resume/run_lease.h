// TakeRunLease takes the lease of a folder of checkpoints for a run: all ranks call it together, rank 0 holds it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "checkpoint/exchange/rank_exchange.h"
#include "checkpoint/folder/folder_lease.h"
#include "checkpoint/format/run_identity.h"
#include "storage/object_store.h"
#include "trainer/core/state.h"

namespace composer {

// All ranks must call it. Rank 0 gets the lease, the others null; an error is all ranks'. Blocks as
// FolderLease::Acquire does. The run is identified by state.identity.run_folder's id
// (checkpoint/format/run_identity.h), the first that a rank finds in its folder; it is made when none has one. Without
// a run folder the run is identified only by its name.
absl::StatusOr<std::unique_ptr<FolderLease>> TakeRunLease(std::shared_ptr<ObjectStore> folder, RankExchange& exchange,
                                                          const State& state, const LaunchId& launch,
                                                          const FolderLeaseOptions& options = {});

}  // namespace composer
