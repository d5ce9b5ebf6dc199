// SPDX-License-Identifier: Apache-2.0
#include "data/order/batch_slots.h"

namespace composer {

std::vector<std::vector<uint32_t>> DrawBatches(const std::vector<StreamPart>& parts, int64_t size,
                                               NumpyGenerator& random, std::vector<uint32_t>& rest) {
  std::vector<uint32_t> slots;
  for (size_t i = 0; i < parts.size(); ++i)
    slots.insert(slots.end(), static_cast<size_t>(parts[i].batches), static_cast<uint32_t>(i));
  random.Shuffle(absl::MakeSpan(slots));
  std::vector<int64_t> used(parts.size(), 0);  // ids
  std::vector<std::vector<uint32_t>> batches;
  for (const uint32_t stream : slots) {
    const std::vector<uint32_t>& ids = parts[stream].ids;
    if (used[stream] + size > static_cast<int64_t>(ids.size())) continue;
    batches.emplace_back(ids.begin() + used[stream], ids.begin() + used[stream] + size);
    used[stream] += size;
  }
  for (size_t i = 0; i < parts.size(); ++i) rest.insert(rest.end(), parts[i].ids.begin() + used[i], parts[i].ids.end());
  return batches;
}

}  // namespace composer
