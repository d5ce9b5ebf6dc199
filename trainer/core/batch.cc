// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/batch.h"

#include <torch/torch.h>

namespace composer {

Batch Batch::Slice(int64_t begin, int64_t end) const {
  TORCH_CHECK_VALUE(0 <= begin && begin <= end && end <= num_samples, "Batch::Slice: rows [", begin, ", ", end,
                    ") of a batch with ", num_samples, " samples");
  if (begin == 0 && end == num_samples) return *this;
  Batch part;
  part.inputs = inputs.slice(0, begin, end);
  part.targets = targets.slice(0, begin, end);
  if (!sample_ids.empty()) part.sample_ids.assign(sample_ids.begin() + begin, sample_ids.begin() + end);
  part.num_samples = end - begin;
  part.num_tokens = num_samples == 0 ? 0 : num_tokens * part.num_samples / num_samples;
  return part;
}

}  // namespace composer
