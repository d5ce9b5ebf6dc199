// These functions read what a plan says into its targets: one rank for itself, or all ranks together, each byte read by
// one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/exchange/byte_exchange.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/load/load_targets.h"
#include "storage/object_store.h"

namespace composer {

// Reads straight into memory where it lies in one piece, large pieces at once, with several readers when there is much.
absl::Status ReadAlone(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                       LoadTargets* targets);

// Requires the same targets on all ranks. Ranks take the runs of chunks in turn; each reads its own, one ahead of what
// is passed on, and all get all of them. Every rank verifies every chunk. Takes two buffers of a run (RunLimits) per
// rank. An error of one rank does not keep the others waiting, but they may not see it: use AgreeOn.
absl::Status ReadTogether(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                          LoadTargets* targets, ByteExchange& exchange);

// The targets are this rank's. Ranks with the same ones (the replicas of HYBRID_SHARD) read them as ReadTogether does,
// each group for itself, the others as ReadAlone does. Thus each byte is read by one rank, except for chunks in which
// the targets of several begin or end.
absl::Status ReadInGroups(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                          LoadTargets* targets, ByteExchange& exchange);

// Returns what rank 0 makes, or its error, on all ranks. The others do not call `make`.
absl::StatusOr<std::string> BroadcastText(ByteExchange& exchange,
                                          absl::FunctionRef<absl::StatusOr<std::string>()> make);

}  // namespace composer
