// Sums gradients over ranks in buckets while backward still runs (DDP's NO_SHARD), with a few floats of the step at the
// tail of the last bucket.
//
// Parameters are put into buckets in reverse order, as backward reaches them. When the last gradient of a bucket is
// accumulated, its all-reduce starts; buckets start in order on every rank, whatever the order of gradients. Afterwards
// each parameter's .grad is a view of its bucket: no copy back. Collectives a step = number of buckets. Source:
// torch/csrc/distributed/c10d/reducer.cpp (the method), Li et al. 2020, arXiv:2006.15704.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "trainer/parallel/communicator.h"
#include "trainer/parallel/gradient_sync.h"

namespace composer {

// Threads: the training thread, and the autograd thread inside backward (on CPU the same one).
class GradientReducer final : public GradientSync {
 public:
  struct Options {
    int64_t first_bucket_bytes = 1 << 20;  // small, so that the first all-reduce starts early in backward
    int64_t bucket_bytes = 25 << 20;
    int tail_length = 0;  // floats at the end of the last bucket
  };

  // params: float32, requires_grad, on one device; they and the communicator must outlive the reducer.
  // Installs a post-accumulate hook on each parameter (removed by the destructor). Throws c10::ValueError on other
  // dtypes.
  GradientReducer(std::vector<at::Tensor> params, Communicator& communicator, Options options);
  ~GradientReducer() override;
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  absl::Span<float> tail() override { return absl::MakeSpan(tail_); }
  void Arm() override;
  // Parameters without a gradient count as zeros.
  void Finish() override;
  // The last bucket is on its way: what the tail says of this rank can no longer change.
  bool tail_sent() const override { return armed_ && next_bucket_ == buckets_.size(); }
  int64_t num_collectives_per_step() const override { return num_buckets(); }

  int64_t num_buckets() const { return static_cast<int64_t>(buckets_.size()); }

 private:
  struct Bucket {
    at::Tensor flat;             // [elements (+ tail)]
    std::vector<size_t> params;  // indices into params_
    int64_t num_missing = 0;     // gradients still to come this step
    std::unique_ptr<PendingCollective> pending;
  };
  struct Hook;
  struct Slot {
    size_t bucket;
    at::Tensor view;  // of the bucket, in the parameter's shape
    bool ready = false;
  };

  void BuildBuckets(const Options& options);
  void OnGradient(size_t index);
  void StartReadyBuckets();

  std::vector<at::Tensor> params_;
  Communicator& communicator_;
  std::vector<Slot> slots_;  // one a parameter
  std::vector<Bucket> buckets_;
  std::vector<float> tail_;
  size_t next_bucket_ = 0;  // first one that has not started
  bool armed_ = false;
};

}  // namespace composer
