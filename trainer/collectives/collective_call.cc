// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/collective_call.h"

#include "absl/strings/str_cat.h"
#include "trainer/core/torch_status.h"

namespace composer {

CollectiveCall::Words CollectiveCall::Encode() const {
  return {static_cast<uint64_t>(kind) | static_cast<uint64_t>(dtype) << 8 | static_cast<uint64_t>(unit) << 16 |
              static_cast<uint64_t>(root) << 32,
          static_cast<uint64_t>(numel), static_cast<uint64_t>(sequence)};
}

CollectiveCall CollectiveCall::Decode(const Words& words) {
  const uint64_t kind = words[0] & 0xff, dtype = words[0] >> 8 & 0xff;
  if (kind > static_cast<uint64_t>(CollectiveKind::kBroadcast) ||
      dtype >= static_cast<uint64_t>(c10::ScalarType::NumOptions))
    return {};
  return {static_cast<CollectiveKind>(kind), static_cast<c10::ScalarType>(dtype),
          static_cast<int>(words[0] >> 32),  static_cast<int64_t>(words[1]),
          static_cast<int64_t>(words[2]),    static_cast<uint16_t>(words[0] >> 16)};
}

std::string CollectiveCall::ToString() const {
  if (kind == CollectiveKind::kNone) return "no collective yet";
  return absl::StrCat(NameOf(kind), " number ", sequence, " (", c10::toString(dtype), ", ", numel, " elements",
                      kind == CollectiveKind::kBroadcast ? absl::StrCat(" from rank ", root) : "",
                      unit == 0 ? "" : absl::StrCat(" of unit ", unit), ")");
}

const char* NameOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kNone:
      return "none";
    case CollectiveKind::kAllReduce:
      return "all-reduce";
    case CollectiveKind::kAllGather:
      return "all-gather";
    case CollectiveKind::kReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::kBroadcast:
      return "broadcast";
  }
  return "none";
}

std::string ListCalls(absl::Span<const CollectiveCall> by_rank) {
  std::string text;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    absl::StrAppend(&text, rank == 0 ? "" : "; ", "rank ", rank, ": ", by_rank[rank].ToString());
  }
  return text;
}

void CheckSameCall(absl::Span<const CollectiveCall> by_rank) {
  for (const CollectiveCall& call : by_rank) {
    if (call == by_rank[0]) continue;
    throw StatusError(absl::InternalError(absl::StrCat(
        "the ranks are not in the same collective, they have gone different ways before it: ", ListCalls(by_rank))));
  }
}

}  // namespace composer
