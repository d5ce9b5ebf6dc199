// Measures milliseconds per step, 1 rank, 1 thread if not said otherwise: a raw LibTorch loop beside our trainer,
// alternating in one process. Prints one JSON line per program: {"name", "ms_per_step": median of blocks,
// "cpu_ms_per_step", "blocks": [...], "cpu_blocks": [...]}.
//   step_overhead [blocks] [steps a block] [WORKLOAD] [the only program to run] [threads]
// mlp: 64-64-64-10, batch 16. cnn: ResNet of 16, 32, 64 channels on 28 x 28, batch 32; cnn_bf16. gpt: 2 layers, 128
// wide, 64 bytes of context, batch 8. char_gpt: 4 layers, batch 12; char_gpt_bf16: with amp_bf16. gpt2: GPT-2
// 124M with a vocabulary of 50,257, 64 tokens of context, batch 4; gpt2_bf16. All use fused AdamW.
//   raw_loop           one ready batch, forward, loss, no gradients, backward, step: nothing else
//   raw_loop_loading   reads a batch of the same dataset each step
//   raw_loop_fsdp      raw_loop_loading with the model sharded over one rank: the cost of the machinery alone
//   trainer_bare       no logger, no train metrics, no callback
//   trainer_fsdp       trainer_bare with `fsdp_config: {sharding_strategy: FULL_SHARD}` (one rank has nothing to shard)
//   trainer            like a default job: train metrics, metrics.jsonl with a line per step, lr, throughput, bar,
//                      hyperparameters
//   trainer_monitors   trainer with speed_monitor, lr_monitor, memory_monitor, nan_monitor, runtime_estimator,
//                      a schedule
//   trainer_idle_profiler   trainer with a profiler whose window never comes
//   trainer_profiled        trainer, recorded; only when requested by name
//   trainer_in_backward     trainer with in_backward: true
//   trainer_bf16_state      the same with state_dtype: bfloat16; also only when requested by name
//   trainer_channels_last   trainer with `algorithms: [channels_last]`; also only when requested by name
// With a single program, for callgrind, blocks are not alternated and there is no warm-up.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/algorithms/surgery/channels_last.h"
#include "trainer/callbacks/monitors/lr_monitor.h"
#include "trainer/callbacks/monitors/memory_monitor.h"
#include "trainer/callbacks/monitors/nan_monitor.h"
#include "trainer/callbacks/monitors/runtime_estimator.h"
#include "trainer/callbacks/monitors/speed_monitor.h"
#include "trainer/callbacks/monitors/throughput.h"
#include "trainer/callbacks/output/log_hyperparameters.h"
#include "trainer/core/communicator.h"
#include "trainer/core/random.h"
#include "trainer/data/tensor_dataset.h"
#include "trainer/loggers/json_lines.h"
#include "trainer/loggers/progress_bar.h"
#include "trainer/loop/autocast.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet_small.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/model_params.h"
#include "trainer/optim/schedule/schedules.h"
#include "trainer/parallel/fsdp/fsdp.h"
#include "trainer/profiler/profiler.h"
#include "trainer/trainer.h"

namespace composer {
namespace {

using Clock = std::chrono::steady_clock;

struct Workload {
  const char* name;
  int64_t batch;
  std::shared_ptr<Model> (*model)();
  std::shared_ptr<const Dataset> (*data)();
  Precision precision = Precision::kFp32;
};

constexpr int64_t kSamples = 4096, kContext = 64;

std::shared_ptr<const Dataset> Images(at::IntArrayRef shape) {
  torch::manual_seed(1);
  return MakeTensorDataset(torch::randn(shape), torch::randint(10, {kSamples}, torch::kLong));
}

std::shared_ptr<Model> Gpt(int64_t layers) {
  return MakeGpt({.layers = layers, .heads = 4, .width = 128, .context = kContext});
}

constexpr int64_t kGpt2Vocab = 50257;

std::shared_ptr<Model> Gpt2() {
  return MakeGpt({.layers = 12, .heads = 12, .width = 768, .context = kContext, .vocab = kGpt2Vocab});
}

std::shared_ptr<const Dataset> Texts(int64_t vocab) {
  torch::manual_seed(1);
  const at::Tensor ids = torch::randint(vocab, {kSamples, kContext + 1}, torch::kLong);
  return MakeTensorDataset(ids.slice(1, 0, kContext).contiguous(), ids.slice(1, 1).contiguous());
}

constexpr Workload kWorkloads[] = {
    {"mlp", 16, [] { return MakeMlp({64, 64, 64, 10}); }, [] { return Images({kSamples, 64}); }},
    {"cnn", 32, [] { return MakeResNetSmall({}); }, [] { return Images({kSamples, 1, 28, 28}); }},
    {"cnn_bf16", 32, [] { return MakeResNetSmall({}); }, [] { return Images({kSamples, 1, 28, 28}); },
     Precision::kAmpBf16},
    {"gpt", 8, [] { return Gpt(2); }, [] { return Texts(256); }},
    {"char_gpt", 12, [] { return Gpt(4); }, [] { return Texts(256); }},
    {"char_gpt_bf16", 12, [] { return Gpt(4); }, [] { return Texts(256); }, Precision::kAmpBf16},
    {"gpt2", 4, Gpt2, [] { return Texts(kGpt2Vocab); }},
    {"gpt2_bf16", 4, Gpt2, [] { return Texts(kGpt2Vocab); }, Precision::kAmpBf16},
};

struct Milliseconds {
  double wall = 0, cpu = 0;  // cpu: of all threads
};

Milliseconds PerStep(int64_t steps, const std::function<void(int64_t)>& run) {
  const auto start = Clock::now();
  const std::clock_t cpu_start = std::clock();
  run(steps);
  const auto count = static_cast<double>(steps);
  return {std::chrono::duration<double, std::milli>(Clock::now() - start).count() / count,
          1e3 * static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC / count};
}

std::unique_ptr<Optimizer> MakeAdamW(Model& model, const AdamWOptions& options = {}) {
  return std::make_unique<DecoupledAdamWOptimizer>(ParamGroupsOf(model, {.lr = 1e-4, .weight_decay = 1e-5}), options);
}

// A loop as a careful C++ programmer writes it by hand.
class RawLoop {
 public:
  enum class Kind { kOneBatch, kLoading, kSharded };
  RawLoop(const Workload& workload, Kind kind)
      : workload_(workload), kind_(kind), loading_(kind != Kind::kOneBatch), precision_(workload.precision) {}
  void Run(int64_t steps) {
    if (model_ == nullptr) Make();
    Train(steps);
  }

 private:
  void Make() {
    data_ = workload_.data();
    torch::manual_seed(1);
    model_ = workload_.model();
    if (kind_ == Kind::kSharded) {
      fsdp_ = std::make_unique<Fsdp>(*model_, Fsdp::Ranks{&alone_, &alone_}, FsdpOptions{}, /*tail_length=*/1);
    }
    optimizer_ = MakeAdamW(*model_);
    order_.resize(static_cast<size_t>(workload_.batch));
    std::iota(order_.begin(), order_.end(), 0);
    batch_ = data_->Load(order_);
  }
  void Train(int64_t steps) {
    const auto batch = static_cast<int64_t>(order_.size());
    for (int64_t i = 0; i < steps; ++i) {
      if (loading_) {
        std::iota(order_.begin(), order_.end(), (i * batch) % kSamples);
        batch_ = data_->Load(order_);
      }
      for (at::Tensor& param : optimizer_->groups()[0].params) param.mutable_grad().reset();
      if (fsdp_ != nullptr) {
        fsdp_->BeginStep(1);
        fsdp_->BeginPass();
      }
      at::Tensor loss;
      {
        const AutocastScope autocast(precision_, at::kCPU);
        loss = model_->loss(model_->forward(batch_), batch_).total;
      }
      loss.backward();
      if (fsdp_ != nullptr) fsdp_->Finish();
      optimizer_->Step();
    }
  }

  const Workload& workload_;
  const Kind kind_;
  const bool loading_;
  const Precision precision_;
  std::shared_ptr<const Dataset> data_;
  LocalCommunicator alone_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Fsdp> fsdp_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<int64_t> order_;
  Batch batch_;
};

enum class Extras {
  kBare,
  kFsdp,
  kDefault,
  kMonitors,
  kIdleProfiler,
  kProfiler,
  kInBackward,
  kBf16State,
  kChannelsLast
};

class TrainerRun {
 public:
  TrainerRun(const Workload& workload, Extras extras, std::string folder)
      : workload_(workload), extras_(extras), folder_(std::move(folder)) {}

  // The first call builds the trainer. Later calls, which are measured, continue with it.
  void Run(int64_t steps) {
    if (trainer_ == nullptr) trainer_ = Make(steps);
    const absl::Status status = trainer_->Fit({.duration = Time::Batches(steps)});
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }

 private:
  std::unique_ptr<Trainer> Make(int64_t steps) const {
    TrainerOptions options;
    const AdamWOptions adam{.bf16_state = extras_ == Extras::kBf16State,
                            .in_backward = extras_ == Extras::kInBackward || extras_ == Extras::kBf16State};
    SeedForConstruction(1);
    options.model = workload_.model();
    options.train.dataset = workload_.data();
    options.train.global_train_batch_size = workload_.batch;
    options.make_optimizer = [adam](Model& model) { return MakeAdamW(model, adam); };
    options.precision = workload_.precision;
    options.max_duration = Time::Batches(steps);
    const bool bare = extras_ == Extras::kBare || extras_ == Extras::kFsdp;
    options.train_metrics_interval = bare ? 0 : 1;
    if (extras_ == Extras::kFsdp) options.fsdp.emplace();
    if (extras_ == Extras::kMonitors) AddMonitors(options);
    if (!bare) AddDefaults(options);
    if (extras_ == Extras::kChannelsLast) options.algorithms.push_back(std::make_unique<ChannelsLast>());
    if (extras_ == Extras::kIdleProfiler || extras_ == Extras::kProfiler) AddProfiler(options);
    return Trainer::Create(std::move(options)).value();
  }
  void AddDefaults(TrainerOptions& options) const {
    options.loggers.push_back(JsonLines::Open(absl::StrCat(folder_, "/metrics.jsonl")).value());
    options.callbacks.push_back(std::make_unique<LogHyperparameters>(Hyperparameters{{"num_nodes", "1"}}));
    if (extras_ != Extras::kMonitors) {
      options.callbacks.push_back(std::make_unique<LRMonitor>());
      options.callbacks.push_back(std::make_unique<Throughput>());
    }
    static const int kNowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    ProgressBar::Options bar;
    bar.fd = kNowhere;
    options.callbacks.push_back(std::make_unique<ProgressBar>(bar, RealClock::Get()));
  }
  // An idle profiler's first window never comes. Otherwise everything but the warm-up is recorded, in windows of 20
  // batches.
  void AddProfiler(TrainerOptions& options) const {
    ProfilerOptions profiler;
    profiler.folder = folder_;
    profiler.schedule = CyclicSchedule{.skip_first = extras_ == Extras::kIdleProfiler ? int64_t{1} << 40 : 0,
                                       .wait = 0,
                                       .warmup = 1,
                                       .active = 20,
                                       .repeat = 0};
    options.callbacks.push_back(std::make_unique<Profiler>(profiler));
  }
  static void AddMonitors(TrainerOptions& options) {
    options.callbacks.push_back(std::make_unique<SpeedMonitor>(SpeedMonitor::Options{}));
    options.callbacks.push_back(std::make_unique<LRMonitor>());
    options.callbacks.push_back(std::make_unique<MemoryMonitor>(MemoryMonitor::Options{}));
    options.callbacks.push_back(std::make_unique<NaNMonitor>());
    options.callbacks.push_back(std::make_unique<RuntimeEstimator>(RuntimeEstimator::Options{}));
    options.schedulers.push_back(MakeScheduler(ScheduleByName("cosine_annealing_with_warmup").value()));
  }

  const Workload& workload_;
  const Extras extras_;
  const std::string folder_;
  std::unique_ptr<Trainer> trainer_;
};

struct Program {
  const char* name;
  std::function<void(int64_t)> run;
  std::vector<double> ms, cpu_ms;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Print(const Program& program) {
  std::printf("{\"name\":\"%s\",\"ms_per_step\":%.5f,\"cpu_ms_per_step\":%.5f,\"blocks\":[%s],\"cpu_blocks\":[%s]}\n",
              program.name, Median(program.ms), Median(program.cpu_ms), absl::StrJoin(program.ms, ",").c_str(),
              absl::StrJoin(program.cpu_ms, ",").c_str());
}

int Main(int blocks, int64_t steps, const std::string& name, const std::string& only, int threads) {
  const auto* workload =
      std::find_if(std::begin(kWorkloads), std::end(kWorkloads), [&](const Workload& w) { return name == w.name; });
  if (workload == std::end(kWorkloads)) return 64;
  at::set_num_threads(threads);
  std::string folder = std::filesystem::temp_directory_path() / "composer-step-XXXXXX";
  folder = mkdtemp(folder.data());
  RawLoop raw(*workload, RawLoop::Kind::kOneBatch), loading(*workload, RawLoop::Kind::kLoading),
      sharded(*workload, RawLoop::Kind::kSharded);
  TrainerRun bare(*workload, Extras::kBare, folder), fsdp(*workload, Extras::kFsdp, folder),
      usual(*workload, Extras::kDefault, folder), monitors(*workload, Extras::kMonitors, folder),
      idle(*workload, Extras::kIdleProfiler, folder), profiled(*workload, Extras::kProfiler, folder),
      in_backward(*workload, Extras::kInBackward, folder), bf16_state(*workload, Extras::kBf16State, folder),
      channels_last(*workload, Extras::kChannelsLast, folder);
  Program programs[] = {{"raw_loop", [&](int64_t n) { raw.Run(n); }, {}, {}},
                        {"raw_loop_loading", [&](int64_t n) { loading.Run(n); }, {}, {}},
                        {"raw_loop_fsdp", [&](int64_t n) { sharded.Run(n); }, {}, {}},
                        {"trainer_bare", [&](int64_t n) { bare.Run(n); }, {}, {}},
                        {"trainer_fsdp", [&](int64_t n) { fsdp.Run(n); }, {}, {}},
                        {"trainer", [&](int64_t n) { usual.Run(n); }, {}, {}},
                        {"trainer_monitors", [&](int64_t n) { monitors.Run(n); }, {}, {}},
                        {"trainer_idle_profiler", [&](int64_t n) { idle.Run(n); }, {}, {}},
                        {"trainer_profiled", [&](int64_t n) { profiled.Run(n); }, {}, {}},
                        {"trainer_in_backward", [&](int64_t n) { in_backward.Run(n); }, {}, {}},
                        {"trainer_bf16_state", [&](int64_t n) { bf16_state.Run(n); }, {}, {}},
                        {"trainer_channels_last", [&](int64_t n) { channels_last.Run(n); }, {}, {}}};
  constexpr size_t kAlways = 8;                                       // those that run without being named
  for (int block = only.empty() ? -1 : 0; block < blocks; ++block) {  // block -1 warms up
    for (Program& program : programs) {
      const bool asked = only.empty() ? &program < programs + kAlways : only == program.name;
      if (!asked) continue;
      const Milliseconds ms = PerStep(steps, program.run);
      if (block < 0) continue;
      program.ms.push_back(ms.wall);
      program.cpu_ms.push_back(ms.cpu);
    }
  }
  for (const Program& program : programs) {
    if (!program.ms.empty()) Print(program);
  }
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  int blocks = 9, steps = 2000, threads = 1;
  if (argc > 1 && !absl::SimpleAtoi(argv[1], &blocks)) return 64;
  if (argc > 2 && !absl::SimpleAtoi(argv[2], &steps)) return 64;
  if (argc > 5 && !absl::SimpleAtoi(argv[5], &threads)) return 64;
  return composer::Main(blocks, steps, argc > 3 ? argv[3] : "mlp", argc > 4 ? argv[4] : "", threads);
}
