// These options say how the gradients of a model that every rank holds whole (NO_SHARD) are summed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace composer {

// Decides which of a step's backward passes (one per microbatch) sums the gradients over ranks. The step's result is
// the same up to rounding; what differs is when the sums are ready and what they cost. Source: mosaicml
// composer/distributed/dist_strategy.py.
enum class DdpSyncStrategy {
  kSingleAutoSync,  // the last backward, while it runs
  kMultiAutoSync,   // every backward, while it runs: gradients are those of all ranks after every microbatch
  // No backward sums: they are summed after the last one. Nothing overlaps, so that either can be examined alone.
  kForcedSync,
};

// The compression is the form in which gradients travel. In every form each rank adds the same numbers and gets the
// same sum.
enum class GradientCompression {
  kNone,  // float32
  // Gradients, and the sum (NCCL: each partial sum), are rounded to bfloat16: half the bytes; torch's
  // bf16_compress_hook.
  kBf16,
  // Gradients are rounded to bfloat16 and added in float32, in the order of ranks. Each rank sends 2 (N - 1) bytes per
  // parameter, where float32 takes 8 (N - 1) / N: fewer up to 3 ranks, the same for 4.
  kBf16SumFp32,
};

struct DdpOptions {
  DdpSyncStrategy sync_strategy = DdpSyncStrategy::kSingleAutoSync;
  GradientCompression gradient_compression = GradientCompression::kNone;
  int64_t first_bucket_bytes = 1 << 20;  // small, so that the first all-reduce starts early in backward
  int64_t bucket_bytes = 25 << 20;
  // If true, each step's graph is searched for parameters that it does not use, so that their buckets need not wait for
  // the end of backward. Otherwise they are found at the end; the result is the same.
  bool find_unused_parameters = false;
};

}  // namespace composer
