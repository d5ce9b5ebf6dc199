// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/gyro_dropout.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/dropout.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/core/logger.h"
#include "trainer/core/random.h"
#include "trainer/core/state.h"
#include "trainer/layers/replace_layers.h"

namespace composer {
namespace {

// Keeps these draws apart from others with the same seed, rank and batch.
constexpr uint64_t kMaskStream = 0x6779726f6d61736bULL, kChoiceStream = 0x6779726f70696b31ULL;

at::Generator GeneratorOf(uint64_t seed) { return at::make_generator<at::CPUGeneratorImpl>(seed); }

}  // namespace

int64_t GyroPeriod(const GyroDropoutOptions& options, int64_t batches) {
  return std::max<int64_t>(1, batches / options.sigma) * options.tau;
}

at::Tensor GyroMask(const at::Tensor& x, const at::Tensor& masks, double p) {
  const int64_t tau = masks.size(0);
  TORCH_CHECK_VALUE(x.dim() == 2, "gyro_dropout: it masks features [B, F], they have shape ", x.sizes());
  TORCH_CHECK_VALUE(x.size(0) % tau == 0, "gyro_dropout: a microbatch of ", x.size(0),
                    " samples is not a multiple of tau ", tau);
  return x * masks.repeat_interleave(x.size(0) / tau, 0) * (1 / (1 - p));
}

void GyroDropoutLayer::SetSeeds(uint64_t masks, uint64_t choice) {
  if (masks == masks_seed_ && choice == choice_seed_) return;
  masks_seed_ = masks;
  choice_seed_ = choice;
  chosen_.reset();
}

at::Tensor GyroDropoutLayer::forward(const at::Tensor& x) {
  if (!is_training()) return x;
  if (!chosen_.defined()) {
    const torch::NoGradGuard no_grad;
    const at::Tensor masks = torch::rand({options_.sigma, x.size(-1)}, GeneratorOf(masks_seed_)).gt(options_.p);
    const at::Tensor choice =
        torch::randint(options_.sigma, {options_.tau}, GeneratorOf(choice_seed_), torch::dtype(at::kLong));
    chosen_ = masks.index_select(0, choice).to(x.options().requires_grad(false));
  }
  return GyroMask(x, chosen_.to(x.scalar_type()), options_.p);
}

absl::Status GyroDropout::ChangeModel(Model& model, const ModelContext& context) {
  const std::vector<LayerPolicy> policies = PoliciesFor(*this, context);
  ReplaceLayers(model, policies, [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    return module->as<torch::nn::DropoutImpl>() != nullptr ? std::make_shared<GyroDropoutLayer>(options_) : nullptr;
  });
  return absl::OkStatus();
}

absl::Status GyroDropout::Apply(Event event, State& state, Logger& logger) {
  const auto layers = FindLayers(*state.model, LayersOfType<GyroDropoutLayer>());
  const Time& duration = state.max_duration;
  const bool epochs = duration.unit() == TimeUnit::kEpoch;
  if (event == Event::kInit) {
    logger.LogHyperparameters({{"gyro_dropout/num_layers", absl::StrCat(layers.size())}});
    if (layers.empty() && state.identity.rank == 0)
      LOG(WARNING) << "GyroDropout has no effect: " << ClassNameOf(*state.model) << " has no dropout layer";
    if (epochs || duration.unit() == TimeUnit::kBatch) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("gyro_dropout: max_duration: ", duration.ToString(),
                                                   ", it must be in batches (ba) or epochs (ep)"));
  }
  const int64_t batches = duration.count() * (epochs || reads_as_epochs_ ? state.clock.batches_per_epoch : 1);
  const int64_t period = state.timestamp.batch / GyroPeriod(options_, batches);
  for (size_t i = 0; i < layers.size(); ++i) {
    const uint64_t of_layer = MixSeed(state.identity.seed, static_cast<uint64_t>(state.identity.data_rank), i);
    layers[i].second->as<GyroDropoutLayer>()->SetSeeds(MixSeed(of_layer, kMaskStream, 0),
                                                       MixSeed(of_layer, kChoiceStream, static_cast<uint64_t>(period)));
  }
  return absl::OkStatus();
}

}  // namespace composer
