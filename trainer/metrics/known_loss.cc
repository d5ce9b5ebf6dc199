// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/known_loss.h"

#include <utility>

namespace composer {
namespace {

int64_t VersionOf(const at::Tensor& tensor) { return tensor.is_inference() ? -1 : tensor._version(); }

}  // namespace

KnownLoss::Seen::Seen(const at::Tensor& tensor)
    : storage(tensor.storage().getWeakStorageImpl()),
      offset(tensor.storage_offset()),
      version(VersionOf(tensor)),
      sizes(tensor.sizes().vec()),
      strides(tensor.strides().vec()) {}

bool KnownLoss::Seen::Is(const at::Tensor& tensor) const {
  const auto alive = storage.lock();
  return alive && alive.get() == tensor.storage().unsafeGetStorageImpl() && offset == tensor.storage_offset() &&
         version >= 0 && version == VersionOf(tensor) && sizes == tensor.sizes() && strides == tensor.strides();
}

void KnownLoss::Set(const at::Tensor& logits, const at::Tensor& targets, at::Tensor mean) {
  logits_.emplace(logits);
  targets_.emplace(targets);
  mean_ = std::move(mean);
}

at::Tensor KnownLoss::Of(const at::Tensor& logits, const at::Tensor& targets) const {
  const bool known = logits_ && targets_ && logits_->Is(logits) && targets_->Is(targets);
  return known ? mean_ : at::Tensor();
}

}  // namespace composer
