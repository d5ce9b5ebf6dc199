// Milliseconds of CPU time per training step of a family of models with our trainer as a default job has it (metrics,
// metrics.jsonl, learning rate, throughput), one rank and thread, fp32, fused AdamW. benchmarks/family_step.py runs it
// beside PyTorch. Prints a JSON line: {"cpu_ms_per_step": [by block], "ms_per_step": [by block]}.
//   family_step MODEL BATCH SIZE BLOCKS STEPS
// MODEL: a config.json of an `hf` model as text, or autoencoder, diffusion_unet, efficientnet, deeplabv3, resnet18,
// resnet50 or unet. SIZE: tokens of a sample, or the pixels of a picture's side.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/callbacks/monitors/lr_monitor.h"
#include "trainer/callbacks/monitors/throughput.h"
#include "trainer/core/random.h"
#include "trainer/data/tensor_dataset.h"
#include "trainer/loggers/json_lines.h"
#include "trainer/models/hf/hf_model.h"
#include "trainer/models/vision/autoencoder.h"
#include "trainer/models/vision/conditional_unet.h"
#include "trainer/models/vision/deeplabv3.h"
#include "trainer/models/vision/efficientnet.h"
#include "trainer/models/vision/resnet.h"
#include "trainer/models/vision/unet.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/model_params.h"
#include "trainer/trainer.h"

namespace composer {
namespace {

constexpr int64_t kClasses = 10;

struct FamilyRun {
  std::shared_ptr<Model> model;
  std::shared_ptr<const Dataset> data;
};

// A model of features has no loss: here it is the mean of their squares.
class Squared final : public Model {
 public:
  explicit Squared(std::shared_ptr<Model> inner) : inner_(register_module("inner", std::move(inner))) {}
  Outputs forward(const Batch& batch) override { return inner_->forward(batch); }
  Loss loss(const Outputs& outputs, const Batch& /*batch*/) override { return outputs["outputs"].square().mean(); }
  MetricList metrics(bool /*is_train*/) const override { return {}; }

 private:
  std::shared_ptr<Model> inner_;
};

FamilyRun MakeTextRun(const std::string& config, int64_t samples, int64_t size) {
  const nlohmann::json json = nlohmann::json::parse(config);
  const std::string type = json.at("model_type");
  FamilyRun run{LoadHfModel({.config = config}), nullptr};
  if (type == "clip_text_model") run.model = std::make_shared<Squared>(run.model);
  if (type == "vit") {
    run.data = MakeTensorDataset(torch::randn({samples, 3, size, size}), torch::randint(2, {samples}, at::kLong));
    return run;
  }
  const at::Tensor ids = torch::randint(3, json.at("vocab_size").get<int64_t>(), {samples, size + 1}, at::kLong);
  const bool labels = absl::StrContains(config, "ForSequenceClassification");
  run.data = MakeTensorDataset(ids.slice(1, 0, size).contiguous(),
                               labels ? torch::randint(2, {samples}, at::kLong) : ids.slice(1, 1).contiguous());
  return run;
}

std::shared_ptr<Model> MakeDiffusionUNet(int64_t size) {
  ConditionalUNetOptions options;
  options.in_channels = options.out_channels = 3;
  options.sample_size = size;
  options.block_out_channels = {64, 128};
  options.down_block_types = {"DownBlock2D", "DownBlock2D"};
  options.mid_block_type = "UNetMidBlock2D";
  options.up_block_types = {"UpBlock2D", "UpBlock2D"};
  return MakeConditionalUNet(options);
}

FamilyRun MakeFamilyRun(const std::string& model, int64_t samples, int64_t size) {
  torch::manual_seed(1);
  if (absl::StartsWith(model, "{")) return MakeTextRun(model, samples, size);
  const at::Tensor pictures = torch::randn({samples, 3, size, size});
  const at::Tensor classes = torch::randint(kClasses, {samples}, at::kLong);
  if (model == "autoencoder")
    return {std::make_shared<Autoencoder>(AutoencoderOptions{.block_out_channels = {32, 64}, .sample_size = size}),
            MakeTensorDataset(pictures, classes)};
  if (model == "diffusion_unet") return {MakeDiffusionUNet(size), MakeTensorDataset(pictures, classes)};
  if (model == "efficientnet") return {MakeEfficientNet({.classes = kClasses}), MakeTensorDataset(pictures, classes)};
  if (model == "resnet18")
    return {MakeResNet({.depth = 18, .classes = kClasses}), MakeTensorDataset(pictures, classes)};
  if (model == "resnet50")
    return {MakeResNet({.depth = 50, .classes = kClasses}), MakeTensorDataset(pictures, classes)};
  if (model == "unet") {
    UNetOptions options;
    options.segmentation.classes = kClasses;
    options.widths = {32, 64, 128, 256};
    return {MakeUNet(options), MakeTensorDataset(pictures, torch::randint(kClasses, {samples, size, size}, at::kLong))};
  }
  DeepLabV3Options options;
  options.segmentation.classes = kClasses;
  return {MakeDeepLabV3(options),
          MakeTensorDataset(pictures, torch::randint(kClasses, {samples, size, size}, at::kLong))};
}

std::unique_ptr<Trainer> MakeFamilyTrainer(FamilyRun run, int64_t batch, const std::string& folder) {
  TrainerOptions options;
  options.model = std::move(run.model);
  options.train.dataset = std::move(run.data);
  options.train.global_train_batch_size = batch;
  options.make_optimizer = [](Model& model) {
    return std::make_unique<DecoupledAdamWOptimizer>(ParamGroupsOf(model, {.lr = 1e-4, .weight_decay = 1e-5}),
                                                     AdamWOptions{});
  };
  options.max_duration = Time::Batches(1);
  options.loggers.push_back(JsonLines::Open(absl::StrCat(folder, "/metrics.jsonl")).value());
  options.callbacks.push_back(std::make_unique<LRMonitor>());
  options.callbacks.push_back(std::make_unique<Throughput>());
  return Trainer::Create(std::move(options)).value();
}

int Measure(const std::string& model, int64_t batch, int64_t size, int64_t blocks, int64_t steps) {
  using Clock = std::chrono::steady_clock;
  at::set_num_threads(1);
  std::string folder = std::filesystem::temp_directory_path() / "composer-family-XXXXXX";
  folder = mkdtemp(folder.data());
  const auto trainer = MakeFamilyTrainer(MakeFamilyRun(model, batch * 4, size), batch, folder);
  std::vector<double> cpu, wall;
  for (int64_t block = -1; block < blocks; ++block) {  // block -1 warms up
    const int64_t count = block < 0 ? 2 : steps;
    const auto start = Clock::now();
    const std::clock_t cpu_start = std::clock();
    const absl::Status status = trainer->Fit({.duration = Time::Batches(count)});
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
    if (block < 0) continue;
    cpu.push_back(1e3 * static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC / static_cast<double>(count));
    wall.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count() /
                   static_cast<double>(count));
  }
  std::printf("{\"cpu_ms_per_step\":[%s],\"ms_per_step\":[%s]}\n", absl::StrJoin(cpu, ",").c_str(),
              absl::StrJoin(wall, ",").c_str());
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  int64_t numbers[4] = {};
  for (int i = 0; i < 4; ++i) {
    if (argc != 6 || !absl::SimpleAtoi(argv[2 + i], &numbers[i])) return 64;
  }
  return composer::Measure(argv[1], numbers[0], numbers[1], numbers[2], numbers[3]);
}
