// ByteExchange lets the ranks pass on what one of them has read of a checkpoint: the seam to the training process
// group, which is idle while a checkpoint is loaded. All ranks make the same calls in the same order, with the same
// sizes and roots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/exchange/rank_exchange.h"

namespace composer {

class ByteExchange {
 public:
  virtual ~ByteExchange() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // Sets `bytes` to root's. Returns kUnavailable when a rank is lost.
  virtual absl::Status Broadcast(absl::Span<char> bytes, int root) = 0;
  // Returns whether the value is true on all ranks.
  virtual absl::StatusOr<bool> All(bool value) = 0;
  // Returns the exchange of the ranks that pass the same color, ranked as here; a collective. It must not outlive this
  // one. Only some ranks may get an error.
  virtual absl::StatusOr<std::unique_ptr<ByteExchange>> Split(int color) = 0;
};

// Returns OK when all ranks are OK, else this rank's error when it has one, otherwise kUnavailable.
absl::Status AgreeOn(ByteExchange& exchange, const absl::Status& status);

// These facts decide whether each stored byte is read by one rank only and passed on.
struct SharingFacts {
  int world_size = 1;
  int hosts = 1;              // the number of hosts that the ranks run on
  bool remote_store = false;  // object storage
};
struct SharingDecision {
  bool share = false;
  std::string reason;
};
SharingDecision DecideSharing(const SharingFacts& facts);

// Returns the same decision on all ranks, which exchange their hosts' names.
absl::StatusOr<SharingDecision> AgreeOnSharing(RankExchange& exchange, bool remote_store);

}  // namespace composer
