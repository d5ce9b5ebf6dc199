// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/ddp/gradient_reducer.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "trainer/core/torch_status.h"
#include "trainer/parallel/ddp/gradient_order.h"

namespace composer {
namespace {

std::vector<size_t> Reversed(size_t size) {
  std::vector<size_t> order;
  for (size_t i = size; i-- > 0;) order.push_back(i);
  return order;
}

}  // namespace

struct GradientReducer::Hook final : torch::autograd::PostAccumulateGradHook {
  Hook(GradientReducer& owner, size_t param_index) : reducer(owner), index(param_index) {}
  void operator()(const at::Tensor& /*param*/) override { reducer.OnGradient(index); }
  GradientReducer& reducer;
  size_t index;
};

GradientReducer::GradientReducer(std::vector<at::Tensor> params, Communicator& communicator, Options options)
    : params_(std::move(params)), communicator_(communicator), options_(options) {
  TORCH_CHECK_VALUE(!params_.empty(), "GradientReducer: no parameter requires a gradient");
  for (const at::Tensor& param : params_) {
    TORCH_CHECK_VALUE(param.scalar_type() == at::kFloat, "on several ranks parameters must be float32, and one is ",
                      param.scalar_type(), ": keep them so, and let `precision` choose what is computed in");
  }
  const auto length = static_cast<int64_t>(first_flag() + params_.size());
  host_tail_ = at::zeros({length}, at::TensorOptions().dtype(at::kFloat).pinned_memory(params_[0].is_cuda()));
  tail_ = {host_tail_.data_ptr<float>(), static_cast<size_t>(length)};
  received_.resize(tail_.size());
  BuildBuckets(Reversed(params_.size()));
  ordered_ = !options_.order_by_graph || buckets_.size() == 1;
  for (size_t i = 0; i < params_.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(params_[i], std::make_unique<Hook>(*this, i));
  }
}

GradientReducer::~GradientReducer() {
  for (const at::Tensor& param : params_) torch::autograd::impl::set_post_acc_grad_hooks(param, nullptr);
}

void GradientReducer::BuildBuckets(const std::vector<size_t>& order) {
  slots_.assign(params_.size(), Slot());
  buckets_.clear();
  buckets_.emplace_back();
  int64_t elements = 0;
  for (const size_t i : order) {
    const int64_t limit = buckets_.size() == 1 ? options_.first_bucket_bytes : options_.bucket_bytes;
    if (elements > 0 && (elements + params_[i].numel()) * 4 > limit) {
      buckets_.emplace_back();
      elements = 0;
    }
    elements += params_[i].numel();
    buckets_.back().params.push_back(i);
  }
  const torch::NoGradGuard no_grad;
  const auto like_params = params_[0].options().requires_grad(false);
  const auto tail_length = static_cast<int64_t>(tail_.size());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    int64_t length = 0;
    for (const size_t i : bucket.params) length += params_[i].numel();
    const bool has_tail = b + 1 == buckets_.size() && !compresses();
    bucket.flat = torch::zeros({length + (has_tail ? tail_length : 0)}, like_params);
    if (has_tail) tail_flat_ = bucket.flat.narrow(0, length, tail_length);
    if (options_.gradient_compression == GradientCompression::kBf16)
      bucket.wire = torch::empty({length}, like_params.dtype(at::kBFloat16));
    if (options_.gradient_compression == GradientCompression::kBf16SumFp32)
      bucket.wire = torch::empty({communicator_.world_size(), length}, like_params.dtype(at::kBFloat16));
    int64_t offset = 0;
    for (const size_t i : bucket.params) {
      slots_[i] = {b, bucket.flat.narrow(0, offset, params_[i].numel()).view(params_[i].sizes()), false};
      offset += params_[i].numel();
    }
  }
  if (compresses()) tail_flat_ = torch::zeros({tail_length}, like_params);
}

std::vector<size_t> GradientReducer::order() const {
  std::vector<size_t> order;
  for (const Bucket& bucket : buckets_) order.insert(order.end(), bucket.params.begin(), bucket.params.end());
  return order;
}

void GradientReducer::AgreeOnOrder(const std::vector<size_t>& reached) {
  ordered_ = true;
  // A graph that leaves out parameters (a layer dropped at random) does not determine the order.
  std::vector<size_t> order = reached.size() == params_.size() ? reached : Reversed(params_.size());
  std::vector<int64_t> indices(order.begin(), order.end());
  at::Tensor agreed = torch::tensor(indices, at::kLong).to(communicator_.device());
  communicator_.Broadcast(agreed, communicator_.world_size() - 1);
  agreed = agreed.cpu();
  const int64_t* data = static_cast<const int64_t*>(agreed.const_data_ptr());
  std::copy(data, data + agreed.numel(), order.begin());
  if (order != this->order()) BuildBuckets(order);
}

void GradientReducer::KeepSumsOnOneRank() {
  const bool counted_elsewhere = has_sums_ && communicator_.rank() != 0;
  has_sums_ = false;
  if (!counted_elsewhere) return;
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& param : params_) {
    if (param.grad().defined()) param.mutable_grad().zero_();
  }
}

void GradientReducer::BeginStep(int64_t passes) {
  rounds_left_ = options_.sync_strategy == DdpSyncStrategy::kMultiAutoSync ? passes : 1;
}

void GradientReducer::BeginPass() {
  KeepSumsOnOneRank();
  if (rounds_left_ > 1) BeginRound({});
}

void GradientReducer::EndPass() {
  if (rounds_left_ == 1) return;
  EndRound();
  --rounds_left_;
  has_sums_ = true;
}

void GradientReducer::Arm(const at::Tensor& loss) {
  if (!armed_ && options_.sync_strategy != DdpSyncStrategy::kForcedSync) BeginRound(loss);
}

void GradientReducer::BeginRound(const at::Tensor& loss) {
  std::vector<size_t> reached;
  const bool looks = loss.defined() && (options_.find_unused_parameters || !ordered_);
  if (looks) reached = GradientOrder(loss, params_);
  if (!ordered_) AgreeOnOrder(reached);
  KeepSumsOnOneRank();
  for (Bucket& bucket : buckets_) bucket.num_missing = static_cast<int64_t>(bucket.params.size());
  for (Slot& slot : slots_) slot.ready = false;
  next_bucket_ = 0;
  armed_ = true;
  if (!looks || !options_.find_unused_parameters || reached.size() == params_.size()) return;
  std::vector<bool> comes(params_.size());
  for (const size_t i : reached) comes[i] = true;
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!comes[i]) OnGradient(i);
  }
}

void GradientReducer::OnGradient(size_t index) {
  Slot& slot = slots_[index];
  if (!armed_ || slot.ready) return;
  const torch::NoGradGuard no_grad;
  at::Tensor& grad = params_[index].mutable_grad();
  tail_[first_flag() + index] = grad.defined() ? 1 : 0;
  if (grad.defined()) {
    if (grad.data_ptr() != slot.view.data_ptr()) slot.view.copy_(grad);
  } else {
    slot.view.zero_();
  }
  grad = slot.view;
  slot.ready = true;
  --buckets_[slot.bucket].num_missing;
  StartReadyBuckets();
}

void GradientReducer::StartReadyBuckets() {
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].num_missing == 0) {
    Bucket& bucket = buckets_[next_bucket_++];
    const bool is_last = next_bucket_ == buckets_.size();
    check_.Add(GradientsOf(bucket));
    if (is_last) WriteTail();
    Start(bucket);
    if (is_last && compresses()) tail_pending_ = communicator_.StartAllReduceSum(tail_flat_);
  }
}

void GradientReducer::WriteTail() {
  tail_flat_.copy_(host_tail_, /*non_blocking=*/true);
  std::exchange(device_tail_, {}).CopyTo(tail_flat_);
  check_.WriteTo(tail_flat_.narrow(0, options_.tail_length, 1));
}

at::Tensor GradientReducer::GradientsOf(const Bucket& bucket) const {
  const bool has_tail = &bucket == &buckets_.back() && !compresses();
  return has_tail ? bucket.flat.narrow(0, 0, bucket.flat.numel() - tail_flat_.numel()) : bucket.flat;
}

void GradientReducer::Start(Bucket& bucket) {
  switch (options_.gradient_compression) {
    case GradientCompression::kNone:
      bucket.pending = communicator_.StartAllReduceSum(bucket.flat);
      return;
    case GradientCompression::kBf16:
      bucket.wire.copy_(bucket.flat);
      bucket.pending = communicator_.StartAllReduceSum(bucket.wire);
      return;
    case GradientCompression::kBf16SumFp32: {
      const at::Tensor mine = bucket.wire[communicator_.rank()];
      mine.copy_(bucket.flat);
      bucket.pending = communicator_.StartAllGather(bucket.wire, mine);
      return;
    }
  }
}

void GradientReducer::Receive(Bucket& bucket) {
  bucket.pending->Wait();
  bucket.pending.reset();
  if (options_.gradient_compression == GradientCompression::kBf16) bucket.flat.copy_(bucket.wire);
  if (options_.gradient_compression != GradientCompression::kBf16SumFp32) return;
  bucket.flat.copy_(bucket.wire[0]);
  for (int rank = 1; rank < communicator_.world_size(); ++rank) bucket.flat.add_(bucket.wire[rank]);
}

void GradientReducer::SumRound() {
  if (!armed_) BeginRound({});
  for (const size_t i : order()) OnGradient(i);
  armed_ = false;
  const torch::NoGradGuard no_grad;
  for (Bucket& bucket : buckets_) Receive(bucket);
  if (tail_pending_ != nullptr) tail_pending_->Wait();
  tail_pending_.reset();
}

void GradientReducer::EndRound() {
  SumRound();
  at::from_blob(received_.data(), {static_cast<int64_t>(received_.size())}, at::kFloat).copy_(tail_flat_);
  ForgetUnused();
}

void GradientReducer::ForgetUnused() {
  const float* has_gradient = received_.data() + first_flag();
  for (size_t i = 0; i < params_.size(); ++i) {
    if (has_gradient[i] == 0) params_[i].mutable_grad().reset();
  }
}

void GradientReducer::Finish() {
  while (rounds_left_ > 1) EndPass();
  EndRound();
  has_sums_ = false;
  check_.Reset();
  finite_ = received_[first_flag() - 1] == 0;
  std::copy(received_.begin(), received_.begin() + options_.tail_length, tail_.begin());
}

GradientSync::QueuedSums GradientReducer::QueueFinish() {
  SumRound();
  has_sums_ = false;
  check_.Reset();
  return {tail_flat_, options_.tail_length};
}

void GradientReducer::TakeQueued(absl::Span<const double> numbers) {
  std::copy(numbers.begin(), numbers.end(), received_.begin());
  const auto unused = std::find(received_.begin() + static_cast<int64_t>(first_flag()), received_.end(), 0.0F);
  if (unused != received_.end()) {
    throw StatusError(absl::InvalidArgumentError(
        "cuda_graphs: on several ranks each parameter must have a gradient in each step, and one has none on any rank; "
        "freeze it, or set cuda_graphs: false"));
  }
  finite_ = received_[first_flag() - 1] == 0;
  std::copy(received_.begin(), received_.begin() + options_.tail_length, tail_.begin());
}

}  // namespace composer
