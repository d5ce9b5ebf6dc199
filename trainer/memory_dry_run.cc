// SPDX-License-Identifier: Apache-2.0
#include "trainer/memory_dry_run.h"

#include <ATen/Context.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "trainer/collectives/dry_run_communicator.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/data_loader.h"
#include "trainer/data/prefetcher.h"
#include "trainer/init/change_model.h"
#include "trainer/init/construct_model.h"
#include "trainer/init/keep_fp32.h"
#include "trainer/loop/train_batch.h"
#include "trainer/memory/allocation_growth.h"
#include "trainer/optim/matrix/sharded_matrices.h"
#include "trainer/parallel/activations/wrap_activations.h"
#include "trainer/parallel/fsdp/fsdp.h"
#include "trainer/step_shape.h"

namespace composer {
namespace {

constexpr int kSteps = 2;           // the second has what the first leaves: buffers, gradients
constexpr int64_t kMostPasses = 3;  // from the second on all are alike, unless they are summed as a tree
constexpr int64_t kMostEvents = 4 << 20;

int64_t BytesOf(const Batch& batch) {
  int64_t bytes = static_cast<int64_t>(batch.inputs.nbytes());
  if (batch.targets.defined()) bytes += static_cast<int64_t>(batch.targets.nbytes());
  for (const auto& [name, tensor] : batch.extra) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

std::function<std::shared_ptr<Model>()> ChangedModel(const TrainerOptions& options) {
  return WithChanges(options.make_model, OrderOfChanges(options.algorithms, options.engine.algorithm_passes),
                     {options.precision, options.device, options.layer_policies}, options.tensor_parallel_degree);
}

// Builds a run as Trainer does and makes its steps as TrainLoop does.
class DryRun {
 public:
  DryRun(const TrainerOptions& options, const ActivationOptions& activations, const StepShape& shape)
      : shape_(shape),
        world_(shape.data_ranks(), options.device),
        shard_(shape.mesh.shard, options.device),
        replicate_(shape.mesh.replicate, options.device) {
    const ConstructedModel made = ConstructModel(ChangedModel(options), options.seed);
    ThrowIfError(KeepInFp32(*made.model, options.keep_in_fp32));
    ThrowIfError(WrapActivations(*made.model, activations, options.device).status());
    state_.identity.seed = options.seed;
    state_.identity.world_size = state_.identity.data_ranks = shape.data_ranks();
    state_.identity.device = options.device;
    state_.model = made.model;
    state_.settings.precision = options.precision;
    state_.settings.nan = NanPolicy(OnNan::kContinue);  // weights without values may give anything
    if (options.precision == Precision::kAmpFp16) state_.settings.scaler.emplace(GradScaler::Options{});
    state_.settings.accumulate_train_batch_on_tokens = options.accumulate_train_batch_on_tokens;
    if (options.train_metrics_interval > 0) state_.train_metrics = state_.model->metrics(/*is_train=*/true);
    GiveValues(made, options.device, shape.sharded);
    if (shape.sharded) {
      const Fsdp::Ranks ranks{&world_, &shard_, shape.mesh.replicate == 1 ? nullptr : &replicate_};
      fsdp_ =
          std::make_unique<Fsdp>(*state_.model, ranks, *options.fsdp, TrainBatch::TailLength(state_), made.init.get());
      if (shape.leaves > 0) fsdp_->SumPassesInTreeOrder();
      state_.sharding = fsdp_.get();
    }
    state_.optimizer = options.make_optimizer(*state_.model);
    auto* const sharded = dynamic_cast<ShardedOptimizer*>(state_.optimizer.get());
    if (sharded != nullptr && state_.sharding != nullptr) sharded->UseSharding(*state_.sharding);
    engine_ = std::make_unique<Engine>(state_, logger_);
    const ElasticOptions elastic{static_cast<int>(shape.leaves), {{shape.mesh.shard, shape.mesh.replicate}, 0, 0}};
    train_batch_ = std::make_unique<TrainBatch>(state_, *engine_, world_, fsdp_.get(), options.ddp, elastic);
    state_.model->train();
  }

  // The passes have `rows` samples each and make up the whole batch.
  void Step(const Batch& batch, int64_t rows, bool measure) {
    state_.settings.device_train_microbatch_size = shape_.leaves > 0 ? 0 : rows;
    state_.batch = batch;
    TrainBatch::Request request;
    request.global_samples = batch.num_samples * shape_.data_ranks();
    request.measure = measure;
    train_batch_->Run(request);
    state_.timestamp.ToNextBatch(batch.num_samples, batch.num_tokens, absl::ZeroDuration());
  }

 private:
  StepShape shape_;
  DryRunCommunicator world_, shard_, replicate_;
  State state_;
  Logger logger_;
  std::unique_ptr<Fsdp> fsdp_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TrainBatch> train_batch_;
};

std::string TooLong() { return absl::StrCat("a dry run would take more than ", absl::FormatDuration(kLongestDryRun)); }

int64_t PassesOfDryRun(const StepShape& shape) {
  return shape.leaves > 0 ? shape.passes : std::min(shape.passes, kMostPasses);
}

Clock& ClockOf(const TrainerOptions& options) { return options.clock != nullptr ? *options.clock : RealClock::Get(); }

absl::StatusOr<RecordedRun> Record(const TrainerOptions& options, const ActivationOptions& activations,
                                   const StepShape& shape, int64_t rows, absl::Time until) {
  const Batch batch = FirstSamples(*options.train.dataset, rows * PassesOfDryRun(shape)).To(options.device);
  AllocationRecorder recorder(kMostEvents);
  RETURN_IF_ERROR(recorder.Start());
  RecordedRun recorded;
  recorded.rows = rows;
  RETURN_IF_ERROR(CatchTorch([&]() -> absl::Status {
    DryRun run(options, activations, shape);
    recorded.first_event = recorder.History().events.size();
    for (int step = 0; step < kSteps; ++step) {
      if (ClockOf(options).Now() > until) return absl::DeadlineExceededError(TooLong());
      run.Step(batch, rows, options.train_metrics_interval > 0);
    }
    return absl::OkStatus();
  }));
  recorded.history = recorder.History();
  if (recorded.history.dropped > 0) return absl::ResourceExhaustedError("a step makes too many tensors to follow");
  return recorded;
}

// Returns the memory that a GPU's libraries take at their first use and keep.
absl::StatusOr<int64_t> WarmUp(const TrainerOptions& options, const StepShape& shape, absl::Time until) {
  if (options.device.is_cpu()) return 0;
  ASSIGN_OR_RETURN(const RecordedRun run,
                   Record(options, options.activations, shape, RowsOfDryRun(shape.rows).small, until));
  return LiveAtEnd(run, /*gpu=*/true);
}

absl::StatusOr<GrownPeak> PeakOf(const TrainerOptions& options, const ActivationOptions& activations,
                                 const StepShape& shape, absl::Time until) {
  const DryRunRows rows = RowsOfDryRun(shape.rows);
  const bool gpu = !options.device.is_cpu();
  ASSIGN_OR_RETURN(const RecordedRun small, Record(options, activations, shape, rows.small, until));
  if (rows.small == rows.large) return PeakWithRows(small, small, shape.rows, gpu);
  ASSIGN_OR_RETURN(const RecordedRun large, Record(options, activations, shape, rows.large, until));
  return PeakWithRows(small, large, shape.rows, gpu);
}

int64_t BatchBytes(const TrainerOptions& options, const StepShape& shape) {
  const Prefetcher::Options& prefetch = options.train.prefetch;
  const int64_t ahead = options.device.is_cpu() ? int64_t{prefetch.num_workers} * prefetch.prefetch_factor : 0;
  return BytesOf(FirstSamples(*options.train.dataset, 1)) * shape.rank_rows * (1 + ahead);
}

absl::Status CanDryRun(const TrainerOptions& options, const StepShape& shape) {
  const auto no = [](const char* because) { return absl::FailedPreconditionError(because); };
  if (options.make_model == nullptr) return no("the model was given to the trainer already built");
  if (shape.mesh.tensor > 1) return no("tensor parallelism has no dry run");
  return absl::OkStatus();
}

// Restores the generators at the end of a scope, so that draws within it do not change draws after it.
class KeptGenerators {
 public:
  explicit KeptGenerators(at::Device device) {
    Keep(at::kCPU);
    if (!device.is_cpu()) Keep(device);
  }
  ~KeptGenerators() {
    for (auto& [generator, state] : kept_) {
      const std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_state(state);
    }
  }
  KeptGenerators(const KeptGenerators&) = delete;
  KeptGenerators& operator=(const KeptGenerators&) = delete;

 private:
  void Keep(at::Device device) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    kept_.emplace_back(generator, generator.get_state());
  }
  std::vector<std::pair<at::Generator, at::Tensor>> kept_;
};

}  // namespace

DryRunRows RowsOfDryRun(int64_t rows) {
  if (rows <= 3) return {rows, rows};
  return {std::max<int64_t>(2, rows / 16), std::max<int64_t>(3, rows / 8)};
}

PlannedStep PlanStep(const TrainerOptions& options, int world_size) {
  PlannedStep planned;
  const absl::Time until = ClockOf(options).Now() + kLongestDryRun;
  const absl::Status status = CatchTorch([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const StepShape shape, StepShapeOf(options, world_size));
    RETURN_IF_ERROR(CanDryRun(options, shape));
    const KeptGenerators generators(options.device);
    ASSIGN_OR_RETURN(const int64_t libraries, WarmUp(options, shape, until));
    ASSIGN_OR_RETURN(const GrownPeak peak, PeakOf(options, options.activations, shape, until));
    planned.rows = shape.rows;
    planned.passes = shape.passes;
    planned.batches = BatchBytes(options, shape);
    planned.peak = peak.bytes + libraries + planned.batches;
    planned.by_allocation = peak.by_allocation;
    planned.checkpoints = options.activations.checkpoint.any();
    ActivationOptions otherwise = options.activations;
    otherwise.checkpoint = planned.checkpoints ? BlockChoice{} : BlockChoice{.every = 1};
    const absl::StatusOr<GrownPeak> other = PeakOf(options, otherwise, shape, until);
    // The other peak stays unknown if, say, there are no blocks.
    if (other.ok()) planned.peak_otherwise = other->bytes + libraries + planned.batches;
    return absl::OkStatus();
  });
  if (!status.ok()) planned.not_counted = std::string(status.message().substr(0, status.message().find('\n')));
  return planned;
}

}  // namespace composer
