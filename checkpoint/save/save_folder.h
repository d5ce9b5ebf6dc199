// Can this run save into its folder? Asked before training, so that a wrong key, a missing bucket or a folder of another
// run is an error then and not after hours, at the first save.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "checkpoint/exchange/rank_exchange.h"
#include "checkpoint/format/checkpoint_name.h"
#include "checkpoint/save/saver.h"
#include "storage/object_store.h"

namespace composer {

// All ranks call it; rank 0 looks, all have its answer. `now`: where training begins.
//   kAlreadyExists: unless options.overwrite, when the newest checkpoint is after `now` and of another run: this run's
//     would mix with it, and meet it again. Source: mosaicml composer/utils/checkpoint.py, save_overwrite (which refuses a
//     run's own as well; ours are replaced one by one).
//   what the store says, when the folder cannot be listed, or with probe_writes an object cannot be written and deleted.
absl::Status CheckSaveFolder(ObjectStore& store, RankExchange& exchange, const SaverOptions& options,
                             CheckpointName now, bool probe_writes);

}  // namespace composer
