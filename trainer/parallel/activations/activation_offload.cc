// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/activations/activation_offload.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "trainer/parallel/activations/saved_tensors.h"

namespace composer {
namespace {

// An OnHost is a tensor in host memory. Copies from and to a GPU do not block: streams and the caching allocators keep
// the order.
class OnHost {
 public:
  OnHost(const at::Tensor& tensor, std::optional<c10::Stream> side) : device_(tensor.device()) {
    if (device_.is_cpu()) {
      host_ = tensor.clone();
      return;
    }
    host_ = at::empty_like(tensor, tensor.options().device(at::kCPU).pinned_memory(true));
    const c10::impl::VirtualGuardImpl guard(device_.type());
    c10::Event computed(device_.type());
    computed.record(guard.getStream(device_));
    computed.block(*side);
    {
      const c10::StreamGuard on_side(*side);
      host_.copy_(tensor, /*non_blocking=*/true);
    }
    copied_.emplace(device_.type()).record(*side);
    guard.recordDataPtrOnStream(tensor.storage().data_ptr(), *side);
  }
  at::Tensor BackOnDevice() const {
    if (device_.is_cpu()) return host_;
    copied_->block(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    return at::empty_like(host_, host_.options().device(device_).pinned_memory(false))
        .copy_(host_, /*non_blocking=*/true);
  }

 private:
  at::Device device_;
  at::Tensor host_;
  std::optional<c10::Event> copied_;
};

}  // namespace

class ActivationOffload::Policy final : public SavedTensorPolicy {
 public:
  explicit Policy(ActivationOffload& owner) : owner_(owner) {
    for (const at::Tensor& param : owner.block_.parameters())
      params_.insert(param.unsafeGetTensorImpl()->storage().unsafeGetStorageImpl());
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> MakeHooks() override { return std::make_unique<Hooks>(*this); }

 private:
  class Hooks final : public torch::autograd::SavedVariableHooks {
   public:
    explicit Hooks(Policy& policy) : policy_(policy) {}
    void call_pack_hook(const at::Tensor& tensor) override {
      if (policy_.Moves(tensor)) {
        away_.emplace(tensor, policy_.side_);
      } else {
        here_ = tensor;
      }
    }
    at::Tensor call_unpack_hook() override { return away_ ? away_->BackOnDevice() : here_; }

   private:
    Policy& policy_;  // used in the forward
    at::Tensor here_;
    std::optional<OnHost> away_;
  };

  bool Moves(const at::Tensor& tensor) {
    Counts& counts = owner_.counts_;
    const bool moves = (!tensor.is_cpu() || owner_.options_.copy_on_cpu) && tensor.layout() == at::kStrided &&
                       static_cast<int64_t>(tensor.nbytes()) >= owner_.options_.min_bytes &&
                       !params_.contains(tensor.unsafeGetTensorImpl()->storage().unsafeGetStorageImpl());
    if (moves && !tensor.is_cpu() && !side_)
      side_ = c10::impl::VirtualGuardImpl(tensor.device().type()).getStreamFromGlobalPool(tensor.device());
    counts.moved += moves ? 1 : 0;
    counts.stayed += moves ? 0 : 1;
    counts.moved_bytes += moves ? static_cast<int64_t>(tensor.nbytes()) : 0;
    return moves;
  }

  ActivationOffload& owner_;
  absl::flat_hash_set<const c10::StorageImpl*> params_;
  std::optional<c10::Stream> side_;
};

at::Tensor ActivationOffload::Run(const std::vector<at::Tensor>& inputs, const Inner& inner) {
  if (!at::GradMode::is_enabled()) return inner(inputs);
  Policy policy(*this);
  const SavedTensorScope scope(policy);
  return inner(inputs);
}

}  // namespace composer
