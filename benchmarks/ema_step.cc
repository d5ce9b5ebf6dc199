// Measures the cost of EMA: a step of the small GPT (4 layers, 128 wide, 64 bytes of context, batch 8, AdamW, 0.84M
// parameters) with and without it, alternating in one process, 1 rank, 1 thread; and an update by itself. Prints one
// JSON line per program: {"name", "ms_per_step": median of blocks, "cpu_ms_per_step", "blocks": [...]}.
//   ema_step [blocks] [steps a block] [the only program to run]
//   plain, ema      the trainer without and with an average that is updated every batch
//   ema_update      the update of the average alone
// With a single program, for callgrind, there is no warm-up.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "trainer/algorithms/ema.h"
#include "trainer/core/random.h"
#include "trainer/data/tensor_dataset.h"
#include "trainer/models/gpt.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/model_params.h"
#include "trainer/trainer.h"

namespace composer {
namespace {

constexpr int64_t kContext = 64, kBatch = 8, kSamples = 4096;

std::shared_ptr<const Dataset> Tokens() {
  torch::manual_seed(1);
  const at::Tensor ids = torch::randint(256, {kSamples, kContext + 1}, torch::kLong);
  return MakeTensorDataset(ids.slice(1, 0, kContext).contiguous(), ids.slice(1, 1).contiguous());
}

class GptRun {
 public:
  explicit GptRun(bool with_ema) {
    TrainerOptions options;
    SeedForConstruction(1);
    options.model = MakeGpt({.layers = 4, .heads = 4, .width = 128, .context = kContext});
    options.train.dataset = Tokens();
    options.train.global_train_batch_size = kBatch;
    options.make_optimizer = [](Model& model) {
      return std::make_unique<DecoupledAdamWOptimizer>(ParamGroupsOf(model, {.lr = 1e-4, .weight_decay = 1e-5}),
                                                       AdamWOptions{});
    };
    options.max_duration = Time::Batches(1);
    options.train_metrics_interval = 0;
    if (with_ema) options.algorithms.push_back(std::make_unique<Ema>(ResolveEma({}).value()));
    trainer_ = Trainer::Create(std::move(options)).value();
    Fit(2);  // the average begins
  }
  void Fit(int64_t steps) {
    const absl::Status status = trainer_->Fit({.duration = Time::Batches(steps)});
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  void Update(int64_t steps) {
    State& state = trainer_->state();
    for (int64_t i = 0; i < steps; ++i)
      state.algorithms[0]->Apply(Event::kBatchEnd, state, trainer_->logger()).IgnoreError();
  }

 private:
  std::unique_ptr<Trainer> trainer_;
};

struct Timed {
  const char* name;
  std::function<void(int64_t)> run;
  std::vector<double> ms, cpu_ms;
};

void RunTimed(Timed& program, int64_t steps, bool keep) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  program.run(steps);
  const auto count = static_cast<double>(steps);
  if (!keep) return;
  program.ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() /
                       count);
  program.cpu_ms.push_back(1e3 * static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC / count);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Main(int blocks, int64_t steps, const std::string& only) {
  at::set_num_threads(1);
  GptRun plain(false), ema(true);
  Timed programs[] = {{"plain", [&](int64_t n) { plain.Fit(n); }, {}, {}},
                      {"ema", [&](int64_t n) { ema.Fit(n); }, {}, {}},
                      {"ema_update", [&](int64_t n) { ema.Update(n); }, {}, {}}};
  for (int block = only.empty() ? -1 : 0; block < blocks; ++block) {  // block -1 warms up
    for (Timed& program : programs) {
      if (only.empty() || only == program.name) RunTimed(program, steps, block >= 0);
    }
  }
  for (const Timed& program : programs) {
    if (program.ms.empty()) continue;
    std::printf("{\"name\":\"%s\",\"ms_per_step\":%.5f,\"cpu_ms_per_step\":%.5f,\"blocks\":[%s]}\n", program.name,
                Median(program.ms), Median(program.cpu_ms), absl::StrJoin(program.ms, ",").c_str());
  }
  return 0;
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  int blocks = 5, steps = 50;
  if (argc > 1 && !absl::SimpleAtoi(argv[1], &blocks)) return 64;
  if (argc > 2 && !absl::SimpleAtoi(argv[2], &steps)) return 64;
  return composer::Main(blocks, steps, argc > 3 ? argv[3] : "");
}
