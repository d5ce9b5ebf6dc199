// GhostBatchNorm normalises parts of a batch by themselves: B samples are ceil(B / ghost_batch_size) parts, as torch's
// chunk makes them, each normalised with its own mean and variance, as on a device with so small a batch. The momentum
// of the running averages is divided by the number of parts. In evaluation nothing changes.
//
// Source: Hoffer et al. 2017, arXiv:1705.08741; mosaicml composer/algorithms/ghost_batchnorm. Fixed here: evaluation
// takes batches smaller than ghost_batch_size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/slot.h"

namespace composer {

// Parameters and buffers are those of the batch norm under `batchnorm.`.
class GhostBatchNormLayer final : public torch::nn::Module, public Layer {
 public:
  // `norm` is a BatchNorm of torch and a Layer; ghost_batch_size >= 1.
  GhostBatchNormLayer(const std::shared_ptr<torch::nn::Module>& norm, int64_t ghost_batch_size);
  // Throws c10::ValueError in training when a (micro)batch is smaller than ghost_batch_size.
  at::Tensor forward(const at::Tensor& x) override;

 private:
  int64_t ghost_batch_size_;
  Slot<Layer> batchnorm_;
};

class GhostBatchNorm final : public Surgery {
 public:
  explicit GhostBatchNorm(int64_t ghost_batch_size = 32) : ghost_batch_size_(ghost_batch_size) {}
  std::string name() const override { return "GhostBatchNorm"; }
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;
  std::string wanted() const override { return "batch norm"; }

 private:
  int64_t ghost_batch_size_;
};

}  // namespace composer
