// Measures the cost of each algorithm: whole runs of 4 epochs with it and without, alternating in one process, 1 rank,
// 1 thread. A run is measured from its first step to its last, because the cost of several algorithms depends on where
// the run is. Prints one JSON line per algorithm: {"name", "workload", "base_ms", "ms"} (medians of wall-clock
// milliseconds a step), "base_cpu_ms", "cpu_ms" (of CPU time, all threads).
//   algorithm_step [rounds] [steps of a run] [the only algorithm] [batch size in place of the workload's]
// benchmarks/peers/composer_algorithms.py has the same rows for the Python Composer; keep the two alike.
//   cnn   ResNet of 16, 32, 64 channels on 28 x 28, batch 32        rgb   the same from bytes with 3 channels
//   gpt   2 layers, 128 wide, 64 bytes of context, batch 8          mlp   784-512-512-10 with dropout, batch 32
//   own head: not the token embedding
//   gn    3 convolutions of 32 channels with GroupNorm, batch 32    bf16  in amp_bf16
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "composer/algorithms.h"
#include "trainer/core/random.h"
#include "trainer/data/images/pixel_transforms.h"
#include "trainer/data/prepared_dataset.h"
#include "trainer/data/tensor_dataset.h"
#include "trainer/layers/slot.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/models/classifier.h"
#include "trainer/models/gpt.h"
#include "trainer/models/resnet_small.h"
#include "trainer/optim/recipes.h"
#include "trainer/trainer.h"

namespace composer {
namespace {

constexpr int64_t kContext = 64, kEpochs = 4;

class Perceptron final : public Classifier {
 public:
  Perceptron()
      : first_(*this, "first", std::make_shared<LinearLayer>(784, 512)),
        drop_(*this, "drop", std::make_shared<DropoutLayer>(0.5)),
        second_(*this, "second", std::make_shared<LinearLayer>(512, 512)),
        drop_again_(*this, "drop_again", std::make_shared<DropoutLayer>(0.5)),
        last_(*this, "last", std::make_shared<LinearLayer>(512, 10)) {}

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    const at::Tensor hidden = drop_->forward(first_->forward(inputs.flatten(1)).relu());
    return last_->forward(drop_again_->forward(second_->forward(hidden).relu()));
  }

 private:
  Slot<Layer> first_, drop_, second_, drop_again_, last_;
};

class GroupNormNet final : public Classifier {
 public:
  GroupNormNet() : last_(*this, "last", std::make_shared<LinearLayer>(32, 10)) {
    for (int i = 0; i < 3; ++i) {
      convs_.emplace_back(*this, "conv" + std::to_string(i),
                          std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(i == 0 ? 1 : 32, 32, 3).padding(1)));
      norms_.emplace_back(*this, "norm" + std::to_string(i),
                          std::make_shared<GroupNormLayer>(torch::nn::GroupNormOptions(8, 32)));
    }
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    at::Tensor x = inputs;
    for (size_t i = 0; i < convs_.size(); ++i) x = norms_[i]->forward(convs_[i]->forward(x)).relu();
    return last_->forward(x.mean({2, 3}));
  }

 private:
  std::vector<Slot<Layer>> convs_, norms_;
  Slot<Layer> last_;
};

std::shared_ptr<const Dataset> Images(int64_t samples) {
  torch::manual_seed(1);
  return MakeTensorDataset(torch::rand({samples, 1, 28, 28}), torch::randint(10, {samples}, torch::kLong));
}

std::shared_ptr<const Dataset> Sequences(int64_t samples) {
  torch::manual_seed(1);
  const at::Tensor ids = torch::randint(256, {samples, kContext + 1}, torch::kLong);
  return MakeTensorDataset(ids.slice(1, 0, kContext).contiguous(), ids.slice(1, 1).contiguous());
}

class BytesOfNoise final : public SampleSource {
 public:
  explicit BytesOfNoise(int64_t samples) {
    torch::manual_seed(1);
    images_ = torch::randint(256, {samples, 3, 28, 28}, torch::kByte);
    targets_ = torch::randint(10, {samples}, torch::kLong);
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

std::shared_ptr<const Dataset> Pictures(int64_t samples) {
  return PrepareSamples(std::make_shared<const BytesOfNoise>(samples), {.transforms = {MakeToFloat()}});
}

struct Workload {
  const char* name;
  int64_t batch;
  std::shared_ptr<Model> (*model)();
  std::shared_ptr<const Dataset> (*data)(int64_t samples);
  Precision precision = Precision::kFp32;
};

GptOptions SmallGptOptions() { return {.layers = 2, .heads = 4, .width = 128, .context = kContext}; }

std::shared_ptr<Model> SmallGpt() { return MakeGpt(SmallGptOptions()); }

std::shared_ptr<Model> SmallGptWithHead() {
  GptOptions options = SmallGptOptions();
  options.tied_head = false;
  return MakeGpt(options);
}

const Workload kCnn = {"cnn", 32, [] { return MakeResNetSmall({}); }, Images};
const Workload kRgb = {"rgb", 32, [] { return MakeResNetSmall({.channels = 3}); }, Pictures};
const Workload kGpt = {"gpt", 8, SmallGpt, Sequences};
const Workload kGptHead = {"gpt, own head", 8, SmallGptWithHead, Sequences};
const Workload kGptBf16 = {"gpt bf16", 8, SmallGpt, Sequences, Precision::kAmpBf16};
const Workload kMlp = {"mlp", 32, []() -> std::shared_ptr<Model> { return std::make_shared<Perceptron>(); }, Images};
const Workload kGn = {"gn bf16", 32, []() -> std::shared_ptr<Model> { return std::make_shared<GroupNormNet>(); },
                      Images, Precision::kAmpBf16};

struct Row {
  const char* name;
  const Workload* workload;
  std::function<std::unique_ptr<Algorithm>()> make;
};

template <typename T, typename... Args>
std::function<std::unique_ptr<Algorithm>()> Made(Args... args) {
  return [=] { return std::make_unique<T>(args...); };
}

// Defaults, except where the model is too small for them or a run too short.
std::vector<Row> Rows() {
  const SwaOptions swa = {.swa_start = Time::Duration(0.25), .update_interval = Time::Batches(1)};
  const SelectiveBackpropOptions selective = {.start = 0, .end = 1, .keep = 0.5, .scale_factor = 0.5, .interrupt = 0};
  const FactorizeOptions low = {
      .min_channels = 16, .latent_channels = 0.25, .min_features = 128, .latent_features = 32};
  return {
      {"alibi", &kGpt, Made<Alibi>(AlibiOptions{kContext, 1.0})},
      {"augmix", &kRgb, Made<AugMix>()},
      {"blurpool", &kCnn, Made<BlurPool>(BlurPoolOptions{})},
      {"channels_last", &kCnn, Made<ChannelsLast>()},
      {"colout", &kCnn, Made<ColOut>()},
      {"cutmix", &kCnn, Made<CutMix>()},
      {"cutout", &kCnn, Made<CutOut>()},
      {"ema", &kCnn, Made<Ema>(ResolveEma({}).value())},
      {"factorize", &kGpt, Made<Factorize>(low)},
      {"gated_linear_units", &kGpt, Made<GatedLinearUnits>(GatedLinearUnitsOptions{})},
      {"ghost_batchnorm", &kCnn, Made<GhostBatchNorm>(16)},
      {"gradient_clipping norm", &kGpt, Made<GradientClipping>(ClippingType::kNorm, 1.0)},
      {"gradient_clipping value", &kGpt, Made<GradientClipping>(ClippingType::kValue, 1.0)},
      {"gradient_clipping adaptive", &kGpt, Made<GradientClipping>(ClippingType::kAdaptive, 0.5)},
      {"gyro_dropout", &kMlp, Made<GyroDropout>(GyroDropoutOptions{.tau = 16})},
      {"label_smoothing", &kCnn, Made<LabelSmoothing>()},
      {"layer_freezing", &kCnn, Made<LayerFreezing>(LayerFreezingOptions{.freeze_start = 0.0})},
      {"low_precision_groupnorm", &kGn, Made<LowPrecisionGroupNorm>()},
      {"low_precision_layernorm", &kGptBf16, Made<LowPrecisionLayerNorm>()},
      {"mixup", &kCnn, Made<MixUp>()},
      {"no_op_model", &kCnn, Made<NoOpModel>()},
      {"progressive_resizing", &kCnn, Made<ProgressiveResizing>()},
      {"randaugment", &kRgb, Made<RandAugment>()},
      {"sam", &kCnn, Made<Sam>(SamOptions{})},
      {"selective_backprop", &kCnn, Made<SelectiveBackprop>(selective)},
      {"seq_length_warmup", &kGpt, Made<SeqLengthWarmup>(SeqLengthWarmupOptions{.max_seq_length = kContext})},
      {"squeeze_excite", &kCnn, Made<SqueezeExcite>(SqueezeExciteOptions{.min_channels = 16})},
      {"stochastic_depth", &kCnn,
       Made<StochasticDepth>(StochasticDepthOptions{.target_layer_name = "ResNetBasicBlock"})},
      {"swa", &kCnn, Made<Swa>(swa)},
      {"weight_standardization", &kCnn, Made<WeightStandardization>()},
      // Not in Composer.
      {"alternating_flip", &kCnn, Made<AlternatingFlip>()},
      {"batch_size_warmup", &kCnn, Made<BatchSizeWarmup>(BatchSizeWarmupOptions{.start = 0.25, .duration = 0.5})},
      {"cautious_weight_decay", &kGpt, Made<CautiousWeightDecay>()},
      {"lawa", &kGpt, Made<Lawa>(LawaOptions{})},
      {"logit_soft_cap", &kGptHead, Made<LogitSoftCap>(LogitSoftCapOptions{})},
      {"lora", &kGpt, Made<Lora>(LoraOptions{.target_modules = {"qkv", "fc", "proj"}})},
      {"progressive_layer_dropping", &kGpt, Made<ProgressiveLayerDropping>(LayerDroppingOptions{})},
      {"qk_norm", &kGpt, Made<QkNorm>()},
      {"relu_squared", &kGpt, Made<ReluSquared>()},
      {"value_embeddings", &kGpt, Made<ValueEmbeddings>(1)},
      {"whitening_conv", &kCnn, Made<WhiteningConv>(WhiteningConvOptions{})},
      {"z_loss", &kGpt, Made<ZLoss>()},
      {"zero_init", &kGpt, Made<ZeroInit>()},
  };
}

struct Milliseconds {
  double wall = 0, cpu = 0;
};

Milliseconds RunOnce(const Row& row, int64_t steps, int64_t batch, bool with) {
  const Workload& workload = *row.workload;
  TrainerOptions options;
  SeedForConstruction(1);
  options.make_model = workload.model;
  options.train.dataset = workload.data(steps / kEpochs * batch);
  options.train.global_train_batch_size = batch;
  options.make_optimizer = DecoupledAdamW(1e-4);
  options.max_duration = Time::Epochs(kEpochs);
  options.train_metrics_interval = 0;
  options.precision = workload.precision;
  if (with) options.algorithms.push_back(row.make());
  auto trainer = Trainer::Create(std::move(options));
  if (!trainer.ok()) {
    std::fprintf(stderr, "%s: %s\n", row.name, trainer.status().ToString().c_str());
    return {};
  }
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  const absl::Status status = (*trainer)->Fit();
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", row.name, status.ToString().c_str());
  const auto count = static_cast<double>(steps / kEpochs * kEpochs);
  return {std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / count,
          1e3 * static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC / count};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Main(int rounds, int64_t steps, const std::string& only, int64_t batch) {
  at::set_num_threads(1);
  for (const Row& row : Rows()) {
    if (!only.empty() && only != row.name) continue;
    const int64_t size = batch > 0 ? batch : row.workload->batch;
    std::vector<double> values[4];
    for (int round = 0; round < rounds; ++round) {
      const Milliseconds base = RunOnce(row, steps, size, false), with = RunOnce(row, steps, size, true);
      const double measured[] = {base.wall, with.wall, base.cpu, with.cpu};
      for (size_t i = 0; i < 4; ++i) values[i].push_back(measured[i]);
    }
    std::printf(
        "{\"name\":\"%s\",\"workload\":\"%s\",\"base_ms\":%.4f,\"ms\":%.4f,\"base_cpu_ms\":%.4f,\"cpu_ms\":%.4f}\n",
        row.name, row.workload->name, Median(values[0]), Median(values[1]), Median(values[2]), Median(values[3]));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  int rounds = 3, steps = 60, batch = 0;
  if (argc > 1 && (!absl::SimpleAtoi(argv[1], &rounds) || rounds < 1)) return 64;
  if (argc > 2 && (!absl::SimpleAtoi(argv[2], &steps) || steps < 4)) return 64;
  if (argc > 4 && (!absl::SimpleAtoi(argv[4], &batch) || batch < 1)) return 64;
  return composer::Main(rounds, steps, argc > 3 ? argv[3] : "", batch);
}
