// GradientReducer sums gradients over ranks in buckets while backward still runs (DDP's NO_SHARD), with a few floats of
// the step at the tail of the last bucket.
//
// Parameters are put into buckets in the order in which backward reaches them (gradient_order.h, from the first graph;
// all ranks take the order of the last rank, which has samples in every step), and before that in reverse order. When
// the last gradient of a bucket is accumulated, its all-reduce starts; buckets start in order on every rank, whatever
// the order of gradients is. Afterwards each parameter's .grad is a view of its bucket, without a copy back. A step has
// as many collectives as buckets; with compression one more, for the tail. Source:
// torch/csrc/distributed/c10d/reducer.cpp (the method), Li et al. 2020, arXiv:2006.15704.
//
// If no rank has a gradient for a parameter, its .grad stays undefined, so that an optimizer skips it; if only some
// ranks have one, the others have zeros. torch's DDP does this with find_unused_parameters, the reducer always: the
// tail carries a float for each parameter, and one that says whether this rank's gradients are finite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "trainer/core/communicator.h"
#include "trainer/core/gradient_sync.h"
#include "trainer/options/ddp_options.h"
#include "trainer/step/finite_check.h"

namespace composer {

// Threads: the training thread, and the autograd thread inside backward (on a CPU it is the same one).
class GradientReducer final : public GradientSync {
 public:
  struct Options {
    int64_t first_bucket_bytes = DdpOptions().first_bucket_bytes;
    int64_t bucket_bytes = DdpOptions().bucket_bytes;
    GradientCompression gradient_compression = GradientCompression::kNone;
    DdpSyncStrategy sync_strategy = DdpSyncStrategy::kSingleAutoSync;
    bool order_by_graph = false;  // the same on all ranks; not with kMultiAutoSync
    bool find_unused_parameters = false;
    int tail_length = 0;  // the number of floats at the end of the last bucket
  };

  // params must be float32 with requires_grad, on one device; they and the communicator must outlive the reducer.
  // Installs a post-accumulate hook on each parameter (removed by the destructor). Throws c10::ValueError for other
  // dtypes.
  GradientReducer(std::vector<at::Tensor> params, Communicator& communicator, Options options);
  ~GradientReducer() override;
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  absl::Span<float> tail() override { return tail_.first(static_cast<size_t>(options_.tail_length)); }
  void SetDeviceTail(DeviceTail tail) override { device_tail_ = std::move(tail); }
  void Trace(Tracer* tracer) override { communicator_.set_tracer(tracer); }
  // A step without BeginStep and passes sums once.
  void BeginStep(int64_t passes) override;
  void BeginPass() override;
  // With kMultiAutoSync, gradients are now sums over ranks; further backwards accumulate into them.
  void EndPass() override;
  // From here on complete gradients are sent, except with kForcedSync. `loss` is used by order_by_graph and
  // find_unused_parameters.
  void Arm(const at::Tensor& loss = {}) override;
  void Finish() override;
  bool can_queue() const override { return keeps_local() && params_[0].is_cuda(); }
  // The host must not decide then that a parameter has no gradient: TakeQueued throws StatusError if one has none.
  QueuedSums QueueFinish() override;
  void TakeQueued(absl::Span<const double> numbers) override;
  std::vector<float> sent() const override { return {tail_.begin(), tail_.end()}; }
  void SendAgain(absl::Span<const float> sent) override { std::copy(sent.begin(), sent.end(), tail_.begin()); }
  // Returns whether the last bucket has been sent: what the tail says of this rank can no longer change.
  bool tail_sent() const override { return armed_ && rounds_left_ == 1 && next_bucket_ == buckets_.size(); }
  bool gradients_finite() const override { return finite_; }
  int64_t num_collectives_per_step() const override { return num_buckets() + (compresses() ? 1 : 0); }
  bool keeps_local() const override { return options_.sync_strategy != DdpSyncStrategy::kMultiAutoSync; }

  int64_t num_buckets() const { return static_cast<int64_t>(buckets_.size()); }
  // Returns the indices of the parameters in the order of their places in the buckets.
  std::vector<size_t> order() const;

 private:
  struct Bucket {
    at::Tensor flat;             // float32 [elements (+ tail)]
    at::Tensor wire;             // bfloat16, with compression: [elements], or [ranks, elements]
    std::vector<size_t> params;  // indices into params_
    int64_t num_missing = 0;     // gradients still missing in this round
    std::unique_ptr<PendingCollective> pending;
  };
  struct Hook;
  struct Slot {
    size_t bucket;
    at::Tensor view;  // a view of the bucket in the parameter's shape
    bool ready = false;
  };

  bool compresses() const { return options_.gradient_compression != GradientCompression::kNone; }
  void BuildBuckets(const std::vector<size_t>& order);
  // Begins a round, which is a sum of all buckets.
  void BeginRound(const at::Tensor& loss);
  void EndRound();
  // Queues what is left of the round's sums.
  void SumRound();
  // Agrees on the order of parameters: the collective part of the first round.
  void AgreeOnOrder(const std::vector<size_t>& reached);
  void OnGradient(size_t index);
  void StartReadyBuckets();
  void Start(Bucket& bucket);
  // Returns the gradients of a bucket, without the tail.
  at::Tensor GradientsOf(const Bucket& bucket) const;
  size_t first_flag() const { return static_cast<size_t>(options_.tail_length) + 1; }
  void Receive(Bucket& bucket);
  void WriteTail();
  void ForgetUnused();
  // The sums of earlier rounds are on all ranks; this zeroes them on all but rank 0, so that the next sum counts them
  // once.
  void KeepSumsOnOneRank();

  std::vector<at::Tensor> params_;
  Communicator& communicator_;
  Options options_;
  std::vector<Slot> slots_;  // one per parameter
  std::vector<Bucket> buckets_;
  // tail_ has the caller's tail; a float that is not 0 when a gradient is not finite; per parameter, whether it has a
  // gradient.
  at::Tensor host_tail_;  // pinned on a GPU, so that a copy does not wait
  absl::Span<float> tail_;
  std::vector<float> received_;  // the same, summed
  DeviceTail device_tail_;
  // This tensor carries the tail: the end of the last bucket, or with compression a tensor of its own.
  at::Tensor tail_flat_;
  std::unique_ptr<PendingCollective> tail_pending_;
  size_t next_bucket_ = 0;   // the first one that has not started
  int64_t rounds_left_ = 1;  // including the current one
  bool ordered_ = false;
  bool armed_ = false;
  FiniteCheck check_;      // of this step's gradients
  bool finite_ = true;     // of all ranks
  bool has_sums_ = false;  // an earlier round of this step has ended: .grad is a sum over ranks
};

}  // namespace composer
