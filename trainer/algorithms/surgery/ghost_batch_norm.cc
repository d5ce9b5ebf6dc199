// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/ghost_batch_norm.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

#include <optional>

#include "absl/container/flat_hash_set.h"
#include "trainer/core/model.h"

namespace composer {
namespace {

// Returns the options of a batch norm; null for other modules.
torch::nn::BatchNormOptions* BatchNormOptionsOf(torch::nn::Module& module) {
  if (auto* norm = module.as<torch::nn::BatchNorm1dImpl>()) return &norm->options;
  if (auto* norm = module.as<torch::nn::BatchNorm2dImpl>()) return &norm->options;
  if (auto* norm = module.as<torch::nn::BatchNorm3dImpl>()) return &norm->options;
  return nullptr;
}

// Divides the momentum for a scope.
class MomentumScope {
 public:
  MomentumScope(torch::nn::BatchNormOptions& options, int64_t parts) : options_(options), own_(options.momentum()) {
    if (own_) options_.momentum(*own_ / static_cast<double>(parts));
  }
  ~MomentumScope() { options_.momentum(own_); }
  MomentumScope(const MomentumScope&) = delete;
  MomentumScope& operator=(const MomentumScope&) = delete;

 private:
  torch::nn::BatchNormOptions& options_;
  std::optional<double> own_;
};

}  // namespace

GhostBatchNormLayer::GhostBatchNormLayer(const std::shared_ptr<torch::nn::Module>& norm, int64_t ghost_batch_size)
    : ghost_batch_size_(ghost_batch_size), batchnorm_(*this, "batchnorm", norm) {}

at::Tensor GhostBatchNormLayer::forward(const at::Tensor& x) {
  if (!is_training()) return batchnorm_->forward(x);
  TORCH_CHECK_VALUE(x.size(0) >= ghost_batch_size_, "ghost_batchnorm: a microbatch of ", x.size(0),
                    " samples is smaller than ghost_batch_size ", ghost_batch_size_);
  const int64_t parts = (x.size(0) + ghost_batch_size_ - 1) / ghost_batch_size_;
  const MomentumScope momentum(*BatchNormOptionsOf(*named_children()["batchnorm"]), parts);
  std::vector<at::Tensor> normalised;
  for (const at::Tensor& part : x.chunk(parts, 0)) normalised.push_back(batchnorm_->forward(part));
  return at::cat(normalised, 0);
}

absl::Status GhostBatchNorm::ChangeModel(Model& model, const ModelContext& context) {
  // A batch norm that has its parts gets no others.
  absl::flat_hash_set<const torch::nn::Module*> done;
  for (const auto& [name, changed] : FindLayers(model, LayersOfType<GhostBatchNormLayer>()))
    done.insert(changed->named_children()["batchnorm"].get());
  ReplaceLayersOf(model, context, [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    const bool replaced = BatchNormOptionsOf(*module) != nullptr && !done.contains(module.get());
    return replaced ? std::make_shared<GhostBatchNormLayer>(module, ghost_batch_size_) : nullptr;
  });
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> GhostBatchNorm::LayersOf(const Model& model) const {
  return {{"GhostBatchNorm/num_new_modules", FindLayers(model, LayersOfType<GhostBatchNormLayer>()).size()}};
}

}  // namespace composer
