// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/gradient_reducer.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

namespace composer {

struct GradientReducer::Hook final : torch::autograd::PostAccumulateGradHook {
  Hook(GradientReducer& owner, size_t param_index) : reducer(owner), index(param_index) {}
  void operator()(const at::Tensor& /*param*/) override { reducer.OnGradient(index); }
  GradientReducer& reducer;
  size_t index;
};

GradientReducer::GradientReducer(std::vector<at::Tensor> params, Communicator& communicator, Options options)
    : params_(std::move(params)), communicator_(communicator), tail_(static_cast<size_t>(options.tail_length)) {
  TORCH_CHECK_VALUE(!params_.empty(), "GradientReducer: no parameter requires a gradient");
  for (const at::Tensor& param : params_) {
    TORCH_CHECK_VALUE(param.scalar_type() == at::kFloat, "GradientReducer: parameters must be float32, one is ",
                      param.scalar_type());
  }
  BuildBuckets(options);
  for (size_t i = 0; i < params_.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(params_[i], std::make_unique<Hook>(*this, i));
  }
}

GradientReducer::~GradientReducer() {
  for (const at::Tensor& param : params_) torch::autograd::impl::set_post_acc_grad_hooks(param, nullptr);
}

void GradientReducer::BuildBuckets(const Options& options) {
  slots_.resize(params_.size());
  int64_t elements = 0;
  buckets_.emplace_back();
  for (size_t i = params_.size(); i-- > 0;) {
    const int64_t limit = buckets_.size() == 1 ? options.first_bucket_bytes : options.bucket_bytes;
    if (elements > 0 && (elements + params_[i].numel()) * 4 > limit) {
      buckets_.emplace_back();
      elements = 0;
    }
    elements += params_[i].numel();
    buckets_.back().params.push_back(i);
  }
  const torch::NoGradGuard no_grad;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    int64_t length = b + 1 == buckets_.size() ? options.tail_length : 0;
    for (const size_t i : bucket.params) length += params_[i].numel();
    bucket.flat = torch::zeros({length}, params_[bucket.params[0]].options().requires_grad(false));
    int64_t offset = 0;
    for (const size_t i : bucket.params) {
      slots_[i] = {b, bucket.flat.narrow(0, offset, params_[i].numel()).view(params_[i].sizes()), false};
      offset += params_[i].numel();
    }
  }
}

void GradientReducer::Arm() {
  for (Bucket& bucket : buckets_) bucket.num_missing = static_cast<int64_t>(bucket.params.size());
  for (Slot& slot : slots_) slot.ready = false;
  next_bucket_ = 0;
  armed_ = true;
}

void GradientReducer::OnGradient(size_t index) {
  Slot& slot = slots_[index];
  if (!armed_ || slot.ready) return;
  const torch::NoGradGuard no_grad;
  at::Tensor& grad = params_[index].mutable_grad();
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
    if (next_bucket_ == buckets_.size() && !tail_.empty()) {
      const int64_t length = static_cast<int64_t>(tail_.size());
      bucket.flat.narrow(0, bucket.flat.numel() - length, length)
          .copy_(at::from_blob(tail_.data(), {length}, at::kFloat));
    }
    bucket.pending = communicator_.StartAllReduceSum(bucket.flat);
  }
}

void GradientReducer::Finish() {
  if (!armed_) Arm();
  for (size_t i = params_.size(); i-- > 0;) OnGradient(i);
  armed_ = false;
  for (Bucket& bucket : buckets_) {
    bucket.pending->Wait();
    bucket.pending.reset();
  }
  if (tail_.empty()) return;
  const int64_t length = static_cast<int64_t>(tail_.size());
  const at::Tensor& last = buckets_.back().flat;
  at::from_blob(tail_.data(), {length}, at::kFloat).copy_(last.narrow(0, last.numel() - length, length));
}

}  // namespace composer
