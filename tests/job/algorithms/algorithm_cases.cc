// SPDX-License-Identifier: Apache-2.0
#include "tests/job/algorithms/algorithm_cases.h"

#include <torch/types.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "job/job_algorithms.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/core/block.h"
#include "trainer/data/images/pixel_transforms.h"
#include "trainer/data/prepared_dataset.h"
#include "trainer/layers/residual_sum.h"
#include "trainer/layers/slot.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/models/classifier.h"
#include "trainer/optim/recipes.h"

namespace composer {
namespace {

constexpr int64_t kSide = 12, kChannels = 16;

bool Has(const std::vector<AlgorithmCase>& cases, absl::string_view key) {
  return std::any_of(cases.begin(), cases.end(), [&](const AlgorithmCase& one) { return one.key == key; });
}

class PictureBlock final : public Block {
 public:
  explicit PictureBlock(bool batch_norm)
      : conv_(*this, "conv",
              std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(kChannels, kChannels, 3).padding(1).bias(false))),
        sum_(*this, "sum", std::make_shared<AddResidual>("ResNetBasicBlock")) {
    if (batch_norm)
      norm_ = Slot<Layer>(*this, "norm", std::make_shared<BatchNorm2dLayer>(torch::nn::BatchNormOptions(kChannels)));
    else
      norm_ = Slot<Layer>(*this, "norm", std::make_shared<GroupNormLayer>(torch::nn::GroupNormOptions(4, kChannels)));
  }

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    return sum_->forward([&] { return norm_->forward(conv_->forward(inputs[0])); }, [&] { return inputs[0]; }).relu();
  }

 private:
  Slot<Layer> conv_, norm_;
  Slot<ResidualSum> sum_;
};

// Has something for each algorithm that changes layers of a net for pictures.
class PictureNet final : public Classifier {
 public:
  PictureNet(bool batch_norm, double dropout)
      : stem_(*this, "stem", std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(1, kChannels, 3).padding(1))),
        first_(register_module("first", std::make_shared<PictureBlock>(batch_norm))),
        strided_(*this, "strided",
                 std::make_shared<Conv2dLayer>(
                     torch::nn::Conv2dOptions(kChannels, kChannels, 3).stride(2).padding(1).bias(false))),
        second_(register_module("second", std::make_shared<PictureBlock>(batch_norm))),
        pool_(*this, "pool", std::make_shared<MaxPool2dLayer>(2)),
        dropout_(*this, "dropout", std::make_shared<DropoutLayer>(dropout)),
        last_(*this, "last", std::make_shared<LinearLayer>(kChannels, 4)) {}

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    const at::Tensor whole = first_->forward(stem_->forward(inputs).relu());
    const at::Tensor half = second_->forward(strided_->forward(whole).relu());
    return last_->forward(dropout_->forward(pool_->forward(half).mean({2, 3})));
  }

 private:
  Slot<Layer> stem_;
  std::shared_ptr<PictureBlock> first_;
  Slot<Layer> strided_;
  std::shared_ptr<PictureBlock> second_;
  Slot<Layer> pool_, dropout_, last_;
};

class NoisePictures final : public SampleSource {
 public:
  explicit NoisePictures(int64_t samples) {
    Draws draws(11);
    images_ = torch::empty({samples, 1, kSide, kSide}, at::kByte);
    for (int64_t i = 0; i < images_.numel(); ++i)
      images_.data_ptr<uint8_t>()[i] = static_cast<uint8_t>(127.5F * (1 + draws.Next()));
    // The brightest quarter.
    targets_ = images_.to(at::kFloat).view({samples, 2, kSide / 2, 2, kSide / 2}).mean({2, 4}).flatten(1).argmax(1);
  }
  int64_t size() const override { return targets_.size(0); }
  Sample Get(int64_t index) const override {
    Sample sample;
    sample.tensors["inputs"] = images_[index];
    sample.tensors["targets"] = targets_[index];
    return sample;
  }

 private:
  at::Tensor images_, targets_;
};

}  // namespace

const std::vector<AlgorithmCase>& AlgorithmCases() {
  constexpr bool kDraws = true, kOwn = false;
  static const auto& cases = *new std::vector<AlgorithmCase>{
      {"alibi", "alibi", R"({"max_sequence_length": 16, "train_sequence_length_scaling": 0.5})"},
      {"alternating_flip", "alternating_flip"},
      {"augmix", "augmix"},
      {"batch_size_warmup", "batch_size_warmup", R"({"start": 0.5, "duration": 0.5})", false, kOwn},
      {"blurpool", "blurpool"},
      {"cautious_weight_decay", "cautious_weight_decay"},
      {"channels_last", "channels_last"},
      {"colout", "colout", "null", kDraws, kOwn},
      {"cutmix", "cutmix", "null", kDraws, kOwn},
      {"cutmix of losses", "cutmix", R"({"interpolate_loss": true})", kDraws, kOwn},
      {"cutout", "cutout", "null", kDraws, kOwn},
      {"ema", "ema", R"({"half_life": "3ba"})"},
      {"factorize", "factorize",
       R"({"min_channels": 16, "latent_channels": 4, "min_features": 12, "latent_features": 3, "svd_init": true})"},
      {"gated_linear_units", "gated_linear_units"},
      {"ghost_batchnorm", "ghost_batchnorm", R"({"ghost_batch_size": 2})", false, kOwn},
      {"gradient_clipping", "gradient_clipping", R"({"clipping_type": "norm", "clipping_threshold": 0.1})"},
      {"gradient_clipping adaptive", "gradient_clipping",
       R"({"clipping_type": "adaptive", "clipping_threshold": 0.01})"},
      {"gyro_dropout", "gyro_dropout", R"({"sigma": 8, "tau": 1})", kDraws, kOwn},
      {"label_smoothing", "label_smoothing"},
      {"lawa", "lawa", R"({"k": 2, "interval": "2ba"})"},
      {"layer_freezing", "layer_freezing", R"({"freeze_start": 0.0})"},
      {"logit_soft_cap", "logit_soft_cap", R"({"cap": 0.5})"},
      {"lora", "lora", R"({"target_modules": ["fc", "qkv"], "r": 2})"},
      {"low_precision_groupnorm", "low_precision_groupnorm"},
      {"low_precision_layernorm", "low_precision_layernorm"},
      {"mixup", "mixup", "null", kDraws, kOwn},
      {"mixup of losses", "mixup", R"({"interpolate_loss": true})", kDraws, kOwn},
      {"no_op_model", "no_op_model"},
      {"progressive_layer_dropping", "progressive_layer_dropping", R"({"theta": 0.3, "gamma": 10})", kDraws, kOwn},
      {"progressive_resizing", "progressive_resizing", R"({"delay_fraction": 0.2})"},
      {"qk_norm", "qk_norm"},
      {"randaugment", "randaugment"},
      {"relu_squared", "relu_squared"},
      {"sam", "sam", "null", false, kOwn},
      {"selective_backprop", "selective_backprop", R"({"start": 0, "end": 1, "interrupt": 0})", kDraws, kOwn},
      {"seq_length_warmup", "seq_length_warmup",
       R"({"duration": 0.8, "min_seq_length": 4, "max_seq_length": 8, "step_size": 2})"},
      {"squeeze_excite", "squeeze_excite", R"({"latent_channels": 4, "min_channels": 16})"},
      {"stochastic_depth", "stochastic_depth", R"({"target_layer_name": "ResNetBasicBlock", "drop_rate": 0.5})", kDraws,
       kOwn},
      {"swa", "swa", R"({"swa_start": "0.2dur", "swa_end": "0.7dur", "update_interval": "1ba"})"},
      {"value_embeddings", "value_embeddings", R"({"num_layers": 1})"},
      {"weight_standardization", "weight_standardization"},
      {"whitening_conv", "whitening_conv", R"({"samples": 20})"},
      {"z_loss", "z_loss", R"({"weight": 0.01})"},
      {"zero_init", "zero_init"},
  };
  return cases;
}

std::unique_ptr<Algorithm> MakeCase(const AlgorithmCase& one) {
  return MakeAlgorithm({one.key, one.arguments, ""}, {}, /*composer_compat=*/false).value();
}

TrainerOptions CaseRun(Workload workload, const std::vector<AlgorithmCase>& algorithms, const std::string& folder) {
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  if (workload == Workload::kGpt) {
    options.make_model = [] { return MakeGpt(SmallGpt(false)); };
    options.train.dataset = Sentences(24);
  } else {
    const bool batch_norm = Has(algorithms, "ghost_batchnorm");
    const double dropout = Has(algorithms, "gyro_dropout") ? 0.5 : 0;
    options.make_model = [=] { return std::make_shared<PictureNet>(batch_norm, dropout); };
    static const auto& pictures = *new auto(std::make_shared<const NoisePictures>(24));
    options.train.dataset = PrepareSamples(pictures, {.transforms = {MakeToFloat()}});
  }
  options.make_optimizer = AdamW({.lr = 0.01, .weight_decay = 0.1}, {.eps = 1e-3});
  options.train.global_train_batch_size = 8;
  options.max_duration = Time::Batches(kCaseBatches);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(100);
  if (Has(algorithms, "low_precision_groupnorm") || Has(algorithms, "low_precision_layernorm"))
    options.precision = Precision::kAmpBf16;
  for (const AlgorithmCase& one : algorithms) options.algorithms.push_back(MakeCase(one));
  options.make_algorithm = [](const AlgorithmOrigin& origin) {
    return MakeAlgorithm(origin, {}, /*composer_compat=*/false);
  };
  return options;
}

bool SuitsAlone(Workload workload, const AlgorithmCase& one) {
  static auto& known = *new std::map<std::pair<Workload, std::string>, bool>();
  const auto [place, is_new] = known.try_emplace({workload, one.name});
  if (!is_new) return place->second;
  const Warnings warnings;
  TrainerOptions options = CaseRun(workload, {one});
  options.max_duration = Time::Batches(2);
  return place->second = Train(std::move(options)).status.ok() && !absl::StrContains(warnings.text, "has no effect");
}

}  // namespace composer
