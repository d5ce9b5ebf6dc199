// This finds the newest valid checkpoint and loads it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/exchange/byte_exchange.h"
#include "checkpoint/exchange/rank_exchange.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/format/checkpoint_name.h"
#include "checkpoint/format/ignored_keys.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/state_dict.h"
#include "storage/object_store.h"

namespace composer {

struct CheckpointChoice {
  std::string checkpoint;            // `ep1-ba20`; "" when there is no valid one
  std::vector<std::string> refused;  // newer ones, newest first: what is wrong with each, with its path
};

// Returns the newest checkpoint of the folder whose every checksum holds. Fails if the folder cannot be listed, or a
// newer one could not be checked (VerifyResult::unknown).
absl::StatusOr<CheckpointChoice> FindNewestValid(ObjectStore& store);

// Returns the same choice on all ranks. Rank 0 lists; all verify a candidate together, each its share of it, and rank 0
// sends the result. Use depth kFrame when it is loaded next, so that its bytes are read once. `before` limits the
// choice to older ones.
absl::StatusOr<CheckpointChoice> ChooseCheckpoint(ObjectStore& store, RankExchange& exchange,
                                                  VerifyDepth depth = VerifyDepth::kEverything,
                                                  std::optional<CheckpointName> before = std::nullopt);

// A LoadSelection says how much of a checkpoint to load, and which differences to tolerate.
struct LoadSelection {
  // These tensors and keys of small state are left unchanged.
  IgnoredKeys ignore;
  bool allow_missing = false;     // tensors that the checkpoint lacks keep their values
  bool allow_unexpected = false;  // tensors that only the checkpoint has are ignored
};

// Decides what is loaded and into what, once the checkpoint's content is known and before anything of it is loaded. It
// must do the same on all ranks that load together. An error ends the load, on all of them.
using PrepareLoading = std::function<absl::Status(const Manifest& manifest, LoadSelection& selection, StateDict& into)>;

// Copies the checkpoint's tensors into those of `into` (any device and strides; whole tensors and shards alike, however
// they were stored) and replaces its small state. Names, shapes and dtypes must be equal, else it returns
// kFailedPrecondition with all that is missing, unexpected or different, and changes nothing. Reads only the chunks
// that hold what is wanted, and verifies each. Returns kDataLoss when one changed meanwhile; tensors may then have new,
// old or damaged values. `selection` narrows this.
//
// With `exchange` all ranks load the same checkpoint with the same selection, at the same time. Each byte of the
// manifest and of the whole tensors is read by one rank and passed on to the others; a shard that several ranks hold
// (HYBRID_SHARD) is read by one of them and passed on to those. The result is OK on all ranks or on none. If null, this
// rank reads all that it needs. `prepare` may change `into` and the selection; it may be null.
absl::Status LoadCheckpoint(ObjectStore& store, const std::string& checkpoint, StateDict* into,
                            const LoadSelection& selection = {}, ByteExchange* exchange = nullptr,
                            const PrepareLoading& prepare = nullptr);

// Same as LoadCheckpoint, into new tensors on the CPU.
absl::StatusOr<StateDict> LoadNewStateDict(ObjectStore& store, const std::string& checkpoint);

}  // namespace composer
