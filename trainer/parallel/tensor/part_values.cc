// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/part_values.h"

#include <utility>

namespace composer {

PartValues::PartValues(const torch::nn::Module& part, std::shared_ptr<const torch::nn::Module> whole,
                       std::unique_ptr<const DeferredInit> init)
    : whole_(std::move(whole)), init_(std::move(init)) {
  for (PartOfWhole& each : PartsOfWhole(part, ParametersByName(*whole_))) {
    if (!init_->IsDeferred(each.whole)) continue;
    const void* key = each.part.unsafeGetTensorImpl();
    parts_.emplace(key, std::move(each));
  }
}

at::Tensor PartValues::Values(const at::Tensor& tensor) const {
  const PartOfWhole& part = parts_.at(tensor.unsafeGetTensorImpl());
  const at::Tensor whole = init_->Values(part.whole);
  return part.split ? CutFrom(whole, *part.split) : whole;
}

int64_t PartValues::BytesFor(const at::Tensor& tensor) const {
  const PartOfWhole& part = parts_.at(tensor.unsafeGetTensorImpl());
  return init_->BytesFor(part.whole) + (part.split ? static_cast<int64_t>(tensor.nbytes()) : 0);
}

}  // namespace composer
