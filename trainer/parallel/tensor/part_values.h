// PartValues are the initial values of a tensor-parallel rank's part of a model that has none yet: one whole parameter
// is made at a time and this rank's rows or columns are kept, so the values are those of the whole model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "trainer/init/deferred_init.h"
#include "trainer/parallel/tensor/tensor_parallel.h"

namespace composer {

class PartValues final : public FirstValues {
 public:
  // `whole` is the model that `init` knows. `part` has parameters of the same names on device meta; this object has
  // their values as long as they stay there. Throws c10::ValueError for a parameter that is not in the whole or has
  // another shape there.
  PartValues(const torch::nn::Module& part, std::shared_ptr<const torch::nn::Module> whole,
             std::unique_ptr<const DeferredInit> init);

  bool IsDeferred(const at::Tensor& tensor) const override {
    return tensor.is_meta() && parts_.contains(tensor.unsafeGetTensorImpl());
  }
  at::Tensor Values(const at::Tensor& tensor) const override;
  int64_t BytesFor(const at::Tensor& tensor) const override;
  uint64_t Fingerprint() const override { return init_->Fingerprint(); }

 private:
  std::shared_ptr<const torch::nn::Module> whole_;
  std::unique_ptr<const DeferredInit> init_;
  absl::flat_hash_map<const void*, PartOfWhole> parts_;  // by the part's TensorImpl
};

}  // namespace composer
