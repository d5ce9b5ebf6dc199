// Milliseconds a step of a tiny MLP (64-64-64-10, batch 16, fused AdamW, 1 thread): a raw LibTorch loop beside our trainer, alternating in one
// process. Prints one JSON line a program: {"name", "ms_per_step": median of blocks, "blocks": [...]}.
//   step_overhead [blocks] [steps a block]
// raw_loop: one ready batch, forward, loss, zero_grad, backward, step: nothing else. raw_loop_loading: reads a batch of the same dataset each step.
// trainer: everything on as in a default job: loading, loss and train metrics, metrics.jsonl with a line a step, speed monitor off.
// trainer_bare: no logger, no train metrics.
// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/core/random.h"
#include "trainer/data/synthetic.h"
#include "trainer/loggers/json_lines.h"
#include "trainer/models/mlp.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/trainer.h"

namespace composer {
namespace {

constexpr int64_t kBatch = 16;
using Clock = std::chrono::steady_clock;

struct Result {
  const char* name;
  std::vector<double> ms;
};

double MsPerStep(int64_t steps, const std::function<void(int64_t)>& run) {
  const auto start = Clock::now();
  run(steps);
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count() / static_cast<double>(steps);
}

std::shared_ptr<const Dataset> Data() {
  return MakeGaussianClassification({.size = 4096, .features = 64, .classes = 10}).value();
}

std::unique_ptr<Optimizer> MakeAdamW(Model& model) {
  ParamGroup group;
  for (const auto& item : model.named_parameters()) {
    group.names.push_back(item.key());
    group.params.push_back(item.value());
  }
  group.lr = group.initial_lr = 1e-4;
  group.weight_decay = 1e-5;
  return std::make_unique<DecoupledAdamW>(std::vector<ParamGroup>{group}, AdamWOptions{});
}

// What a careful C++ programmer writes by hand.
class RawLoop {
 public:
  explicit RawLoop(bool loading) : loading_(loading) {
    torch::manual_seed(1);
    model_ = MakeMlp({64, 64, 64, 10});
    optimizer_ = MakeAdamW(*model_);
    order_.resize(kBatch);
    std::iota(order_.begin(), order_.end(), 0);
    batch_ = data_->Load(order_);
  }
  void Run(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
      if (loading_) {
        std::iota(order_.begin(), order_.end(), (i * kBatch) % 4096);
        batch_ = data_->Load(order_);
      }
      for (at::Tensor& param : optimizer_->groups()[0].params) param.mutable_grad().reset();
      at::Tensor loss = model_->loss(model_->forward(batch_), batch_).total;
      loss.backward();
      optimizer_->Step();
    }
  }

 private:
  bool loading_;
  std::shared_ptr<const Dataset> data_ = Data();
  std::shared_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<int64_t> order_;
  Batch batch_;
};

void RunTrainer(int64_t steps, bool bare, const std::string& folder) {
  TrainerOptions options;
  SeedForConstruction(1);
  options.model = MakeMlp({64, 64, 64, 10});
  options.train.dataset = Data();
  options.train.global_train_batch_size = kBatch;
  options.make_optimizer = MakeAdamW;
  options.max_duration = Time::Batches(steps);
  options.train_metrics_interval = bare ? 0 : 1;
  if (!bare) options.loggers.push_back(JsonLines::Open(absl::StrCat(folder, "/metrics.jsonl")).value());
  const auto trainer = Trainer::Create(std::move(options)).value();
  const absl::Status status = trainer->Fit();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
}

void Print(Result& result) {
  std::vector<double> sorted = result.ms;
  std::sort(sorted.begin(), sorted.end());
  std::printf("{\"name\":\"%s\",\"ms_per_step\":%.5f,\"blocks\":[%s]}\n", result.name, sorted[sorted.size() / 2],
              absl::StrJoin(result.ms, ",").c_str());
}

void Main(int blocks, int64_t steps) {
  at::set_num_threads(1);
  std::string folder = std::filesystem::temp_directory_path() / "composer-step-XXXXXX";
  folder = mkdtemp(folder.data());
  RawLoop raw(false), loading(true);
  Result results[] = {{"raw_loop", {}}, {"raw_loop_loading", {}}, {"trainer_bare", {}}, {"trainer", {}}};
  for (int block = -1; block < blocks; ++block) {
    const double ms[] = {MsPerStep(steps, [&](int64_t n) { raw.Run(n); }),
                         MsPerStep(steps, [&](int64_t n) { loading.Run(n); }),
                         MsPerStep(steps, [&](int64_t n) { RunTrainer(n, true, folder); }),
                         MsPerStep(steps, [&](int64_t n) { RunTrainer(n, false, folder); })};
    for (int i = 0; i < 4 && block >= 0; ++i) results[i].ms.push_back(ms[i]);  // block -1 warms up
  }
  for (Result& result : results) Print(result);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  int blocks = 9, steps = 2000;
  if (argc > 1 && !absl::SimpleAtoi(argv[1], &blocks)) return 64;
  if (argc > 2 && !absl::SimpleAtoi(argv[2], &steps)) return 64;
  composer::Main(blocks, steps);
}
