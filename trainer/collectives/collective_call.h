// A CollectiveCall describes what one rank is about to do with the others. Ranks compare it before data moves, and
// errors name it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace composer {

enum class CollectiveKind : uint8_t { kNone, kAllReduce, kAllGather, kReduceScatter, kBroadcast };

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kNone;
  c10::ScalarType dtype = c10::ScalarType::Float;
  int root = 0;          // for broadcast
  int64_t numel = 0;     // of the tensor; of one rank's part in all-gather and reduce-scatter
  int64_t sequence = 0;  // the collective's index in its group, from 1
  uint16_t unit = 0;     // the tensor's unit (Communicator::set_unit); 0: unspecified

  using Words = std::array<uint64_t, 3>;
  Words Encode() const;
  // Decodes what another process wrote, which may be any bits. An unknown kind or dtype becomes kNone.
  static CollectiveCall Decode(const Words& words);
  // Returns "all-reduce number 7 (Float, 1024 elements)", or "no collective yet" for kNone.
  std::string ToString() const;
  bool operator==(const CollectiveCall&) const = default;
};

inline int64_t ElementSize(const CollectiveCall& call) { return static_cast<int64_t>(c10::elementSize(call.dtype)); }

const char* NameOf(CollectiveKind kind);

// Returns "rank 0: all-reduce number 7 (…); rank 1: …".
std::string ListCalls(absl::Span<const CollectiveCall> by_rank);

// Throws StatusError kInternal that lists all calls unless they are equal.
void CheckSameCall(absl::Span<const CollectiveCall> by_rank);

}  // namespace composer
