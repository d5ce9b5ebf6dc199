// Reads what a plan says into its targets: one rank for itself, or all ranks together, each byte read by one of them.
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

// Straight into memory where it lies in one piece, large pieces at once; several readers when there is much.
absl::Status ReadAlone(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                       LoadTargets* targets);

// The targets are the same on all ranks. The runs of chunks go round the ranks; each rank reads its own, one ahead of what
// is passed on, and all get all of them. Every rank verifies every chunk. Two buffers of a run (RunLimits) a rank. An error
// of one rank does not keep the others waiting, but they may not see it: AgreeOn.
absl::Status ReadTogether(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                          LoadTargets* targets, ByteExchange& exchange);

// The targets are this rank's. Ranks with the same ones (the replicas of HYBRID_SHARD) read them as ReadTogether does,
// each group for itself, the others as ReadAlone: so each byte is read by one rank, but for chunks in which the targets of
// several begin or end.
absl::Status ReadInGroups(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                          LoadTargets* targets, ByteExchange& exchange);

// What rank 0 makes, or its error, on all ranks. The others do not call `make`.
absl::StatusOr<std::string> BroadcastText(ByteExchange& exchange,
                                          absl::FunctionRef<absl::StatusOr<std::string>()> make);

// OK when all ranks are; this rank's error when it has one, kUnavailable otherwise.
absl::Status AgreeOn(ByteExchange& exchange, const absl::Status& status);

}  // namespace composer
