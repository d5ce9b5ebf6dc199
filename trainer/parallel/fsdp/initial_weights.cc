// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/initial_weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

namespace composer {
namespace {

// Returns whether any rank's model differs from rank 0's.
bool RanksDiffer(const FirstValues* first, Communicator& world) {
  const auto fingerprint = first == nullptr ? 0 : static_cast<int64_t>(first->Fingerprint());
  const auto options = at::TensorOptions().dtype(at::kLong).device(world.device());
  const at::Tensor of_rank_0 = at::full({1}, fingerprint, options);
  world.Broadcast(of_rank_0, 0);
  const at::Tensor differing = at::full({1}, of_rank_0.item<int64_t>() == fingerprint ? 0.0F : 1.0F,
                                        at::TensorOptions().dtype(at::kFloat).device(world.device()));
  world.AllReduceSum(differing);
  return differing.item<float>() > 0;
}

}  // namespace

InitialWeights::InitialWeights(const FirstValues* first, Communicator& world, bool from_rank_0)
    : first_(first), world_(world), sends_(from_rank_0), sends_deferred_(from_rank_0 && RanksDiffer(first, world)) {}

at::Tensor InitialWeights::Values(const at::Tensor& param, bool needed) const {
  const bool deferred = first_ != nullptr && first_->IsDeferred(param), send = deferred ? sends_deferred_ : sends_;
  if (!send && !needed) return {};
  const bool mine = !send || world_.rank() == 0;
  at::Tensor values = !deferred ? param.detach()
                      : mine    ? first_->Values(param)
                                : at::empty(param.sizes(), param.options().device(world_.device()));
  if (!send) return values;
  values = values.to(world_.device()).contiguous();
  world_.Broadcast(values, 0);
  return values;
}

int64_t InitialWeights::BytesFor(const at::Tensor& param) const {
  return first_ != nullptr && first_->IsDeferred(param) ? first_->BytesFor(param) : 0;
}

}  // namespace composer
