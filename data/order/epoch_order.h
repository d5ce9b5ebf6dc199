// One epoch's sequence of sample ids, read from any place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "data/order/sampling.h"
#include "data/order/shuffle.h"

namespace composer {

// Thread-safe.
class EpochOrder {
 public:
  virtual ~EpochOrder() = default;
  virtual int64_t size() const = 0;
  // Sets ids[i] to the id at place begin + i; all places are below size().
  virtual void Read(int64_t begin, absl::Span<uint32_t> ids) = 0;
};

// A sequence that is held whole.
std::shared_ptr<EpochOrder> MakeStoredEpoch(std::vector<uint32_t> ids);

// The shuffled samples of canonical nodes, interleaved (InterleaveOnce), computed where they are read. Reading on is
// cheap, and so is going back by fewer than kKeptPlaces; elsewhere, each node is opened anew (EpochShuffle::Open).
// Memory: 4 bytes for each of 2 * kKeptPlaces, and what open nodes take: the largest span, and for py1e up to 32 bytes
// for each sample that a block's reach holds, whatever the size of the epoch.
inline constexpr int64_t kKeptPlaces = int64_t{1} << 22;
std::shared_ptr<EpochOrder> MakeGeneratedEpoch(std::unique_ptr<const EpochShuffle> shuffle, DrawnSamples drawn,
                                               int64_t size, int64_t canonical_nodes);

}  // namespace composer
