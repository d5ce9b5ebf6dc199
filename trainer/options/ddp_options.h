// How gradients of a model that every rank holds whole (NO_SHARD) are summed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace composer {

// Which backward of a step's several (one a microbatch) sums the gradients over ranks. The step's result is the same but
// for rounding; what differs is when the sums are there and what they cost. Source: mosaicml
// composer/distributed/dist_strategy.py.
enum class DdpSyncStrategy {
  kSingleAutoSync,  // the last one, while it runs
  kMultiAutoSync,   // each, while it runs: gradients are those of all ranks after every microbatch
  kForcedSync,      // none: after the last one has ended. Nothing overlaps, for looking at either alone
};

// What travels. Either way every rank adds the same numbers and has the same sum.
enum class GradientCompression {
  kNone,         // float32
  kBf16,         // rounded to bfloat16, and so is the sum (NCCL: each partial sum): half the bytes; torch's
                 // bf16_compress_hook
  kBf16SumFp32,  // rounded to bfloat16 and added in float32, in the order of ranks. Bytes of a rank: 2 (N - 1) a parameter,
                 // where float32 takes 8 (N - 1) / N: fewer up to 3 ranks, the same for 4
};

struct DdpOptions {
  DdpSyncStrategy sync_strategy = DdpSyncStrategy::kSingleAutoSync;
  GradientCompression gradient_compression = GradientCompression::kNone;
  int64_t first_bucket_bytes = 1 << 20;  // small, so that the first all-reduce starts early in backward
  int64_t bucket_bytes = 25 << 20;
  // Look through each step's graph for parameters that it does not use, so that their buckets need not wait for the end of
  // backward. Without it they are found at the end; the result is the same.
  bool find_unused_parameters = false;
};

}  // namespace composer
