// This checks before training that a run can save into its folder, so that a wrong key, a missing bucket or a folder of
// another run is an error then and not hours later, at the first save.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "checkpoint/exchange/rank_exchange.h"
#include "checkpoint/format/checkpoint_name.h"
#include "checkpoint/save/saver.h"
#include "storage/object_store.h"

namespace composer {

// All ranks must call it; rank 0 checks, all get its answer. `now` is where training begins.
//   kAlreadyExists: unless options.overwrite, when the newest checkpoint is after `now` and of another run: this run's
//     would mix with it, and reach its step later. Source: mosaicml composer/utils/checkpoint.py, save_overwrite (which
//     refuses a run's own as well; ours are replaced one by one).
//   the store's error, when the folder cannot be listed, or with probe_writes an object cannot be written and deleted.
absl::Status CheckSaveFolder(ObjectStore& store, RankExchange& exchange, const SaverOptions& options,
                             CheckpointName now, bool probe_writes);

}  // namespace composer
