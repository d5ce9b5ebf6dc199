// The algorithms that library_test.cc runs, each with a small run that it fits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/algorithms/surgery_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/algorithms/augment/alternating_flip.h"
#include "trainer/algorithms/optimisation/cautious_weight_decay.h"
#include "trainer/algorithms/optimisation/z_loss.h"
#include "trainer/algorithms/schedule/batch_size_warmup.h"
#include "trainer/algorithms/surgery/alibi.h"
#include "trainer/algorithms/surgery/channels_last.h"
#include "trainer/algorithms/surgery/factorize.h"
#include "trainer/algorithms/surgery/gated_linear_units.h"
#include "trainer/algorithms/surgery/ghost_batch_norm.h"
#include "trainer/algorithms/surgery/gyro_dropout.h"
#include "trainer/algorithms/surgery/logit_soft_cap.h"
#include "trainer/algorithms/surgery/lora.h"
#include "trainer/algorithms/surgery/no_op_model.h"
#include "trainer/algorithms/surgery/progressive_layer_dropping.h"
#include "trainer/algorithms/surgery/qk_norm.h"
#include "trainer/algorithms/surgery/relu_squared.h"
#include "trainer/algorithms/surgery/stochastic_depth.h"
#include "trainer/algorithms/surgery/value_embeddings.h"
#include "trainer/algorithms/surgery/weight_standardization.h"
#include "trainer/algorithms/surgery/whitening_conv.h"
#include "trainer/algorithms/surgery/zero_init.h"
#include "trainer/algorithms/swa.h"
#include "trainer/optim/recipes.h"

namespace composer {

using MakeAlgorithmFn = std::function<std::unique_ptr<Algorithm>()>;

template <typename T, typename... Args>
MakeAlgorithmFn MakeIt(Args... args) {
  return [=] { return std::make_unique<T>(args...); };
}

inline TrainerOptions LibraryGptRun(const std::string& folder) {
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [] { return MakeGpt(SmallGpt(true)); };
  options.make_optimizer = MakeGptAdamW;
  options.train.dataset = Sentences(24);
  options.train.global_train_batch_size = 8;
  options.max_duration = Time::Batches(10);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(100);
  return options;
}

// A perceptron with dropout, whose batches are multiples of tau.
inline TrainerOptions DropoutRun(const std::string& folder) {
  TrainerOptions options = ImageRun(folder, 10);
  class Net final : public Classifier {
   public:
    Net()
        : first_(*this, "first", std::make_shared<LinearLayer>(8, 16)),
          dropout_(*this, "dropout", std::make_shared<DropoutLayer>(0.5)),
          last_(*this, "last", std::make_shared<LinearLayer>(16, 4)) {}

   protected:
    at::Tensor Logits(const at::Tensor& inputs) override {
      return last_->forward(dropout_->forward(first_->forward(inputs).relu()));
    }

   private:
    Slot<Layer> first_, dropout_, last_;
  };
  options.make_model = [] { return std::make_shared<Net>(); };
  options.train.dataset = MakeRows(40);
  return options;
}

inline TrainerOptions UntiedGptRun(const std::string& folder) {
  TrainerOptions options = LibraryGptRun(folder);
  options.make_model = [] { return MakeGpt(SmallGpt(false)); };
  return options;
}

inline TrainerOptions DecayingGptRun(const std::string& folder) {
  TrainerOptions options = LibraryGptRun(folder);
  options.make_optimizer = AdamW({.lr = 0.01, .weight_decay = 0.5}, {.eps = 1e-3});
  return options;
}

inline TrainerOptions LibraryImageRun(const std::string& folder) { return ImageRun(folder, 10); }

struct LibraryRow {
  const char* name;
  MakeAlgorithmFn make;
  TrainerOptions (*run)(const std::string& folder);
  std::string parameter;      // one that is there afterwards
  bool same_on_ranks = true;  // up to rounding: no statistics or draws of ranks
  bool draws = false;         // from torch's generator, which rank-threads share
  bool shards = true;
};

inline std::vector<LibraryRow> LibraryRows() {
  const FactorizeOptions low = {.min_channels = 16, .latent_channels = 4, .min_features = 12, .latent_features = 3};
  FactorizeOptions svd = low;
  svd.svd_init = true;
  const StochasticDepthOptions by_block = {
      .target_layer_name = "ResNetBasicBlock", .drop_rate = 0.5, .drop_warmup = 0.3};
  const StochasticDepthOptions by_sample = {
      .target_layer_name = "ResNetBasicBlock", .by_sample = true, .drop_rate = 0.5, .linear = false};
  const SwaOptions swa = {.swa_start = Time::Duration(0.2),
                          .swa_end = Time::Duration(0.7),
                          .update_interval = Time::Batches(2),
                          .schedule_swa_lr = true,
                          .anneal_steps = 3,
                          .swa_lr = 0.002};
  return {
      {"alibi", MakeIt<Alibi>(AlibiOptions{16, 0.5}), LibraryGptRun, "transformer.wpe.weight"},
      {"alternating_flip", MakeIt<AlternatingFlip>(), LibraryImageRun, "conv1.weight", false},
      {"batch_size_warmup", MakeIt<BatchSizeWarmup>(BatchSizeWarmupOptions{0.5, 0.5}), LibraryGptRun,
       "transformer.wpe.weight", false},
      {"cautious_weight_decay", MakeIt<CautiousWeightDecay>(), DecayingGptRun, "transformer.wpe.weight"},
      {"channels_last", MakeIt<ChannelsLast>(), LibraryImageRun, "conv1.weight", false, false, false},
      {"factorize", MakeIt<Factorize>(low), LibraryImageRun, "layer2.0.conv1.module0.weight", false},
      {"factorize by svd", MakeIt<Factorize>(svd), LibraryGptRun, "transformer.blocks.0.mlp.fc.module1.bias"},
      {"gated_linear_units", MakeIt<GatedLinearUnits>(GatedLinearUnitsOptions{}), LibraryGptRun,
       "transformer.blocks.1.mlp.fc.non_gated_layer.weight"},
      {"ghost_batchnorm", MakeIt<GhostBatchNorm>(2), LibraryImageRun, "bn1.batchnorm.weight", false},
      {"gyro_dropout", MakeIt<GyroDropout>(GyroDropoutOptions{.sigma = 8, .tau = 4}), DropoutRun, "first.weight",
       false},
      {"logit_soft_cap", MakeIt<LogitSoftCap>(LogitSoftCapOptions{.cap = 0.1}), UntiedGptRun, "lm_head.weight"},
      {"lora", MakeIt<Lora>(LoraOptions{.r = 2, .lora_alpha = 4, .lora_dropout = 0, .target_modules = {"fc", "qkv"}}),
       LibraryGptRun, "transformer.blocks.0.mlp.fc.lora_A.weight"},
      {"no_op_model", MakeIt<NoOpModel>(), LibraryImageRun, "weights"},
      {"progressive_layer_dropping", MakeIt<ProgressiveLayerDropping>(LayerDroppingOptions{0.3, 10}), LibraryGptRun,
       "transformer.wpe.weight", false, true},
      {"qk_norm", MakeIt<QkNorm>(), LibraryGptRun, "transformer.wpe.weight"},
      {"relu_squared", MakeIt<ReluSquared>(), LibraryGptRun, "transformer.wpe.weight"},
      {"stochastic_depth of blocks", MakeIt<StochasticDepth>(by_block), LibraryImageRun, "layer1.0.conv1.weight", false,
       true},
      {"stochastic_depth of samples", MakeIt<StochasticDepth>(by_sample), LibraryImageRun, "layer1.0.conv1.weight",
       false, true},
      {"swa", MakeIt<Swa>(swa), LibraryGptRun, "transformer.wpe.weight"},
      {"value_embeddings", MakeIt<ValueEmbeddings>(1), LibraryGptRun,
       "transformer.blocks.1.attn.core.value_embedding.weight"},
      {"weight_standardization", MakeIt<WeightStandardization>(1), LibraryImageRun, "layer1.0.conv1.weight", false},
      {"whitening_conv", MakeIt<WhiteningConv>(WhiteningConvOptions{.samples = 20}), LibraryImageRun,
       "conv1.whiten.bias", false},
      {"z_loss", MakeIt<ZLoss>(0.01), LibraryGptRun, "transformer.wpe.weight"},
      {"zero_init", MakeIt<ZeroInit>(), LibraryGptRun, "transformer.wpe.weight"},
  };
}

}  // namespace composer
