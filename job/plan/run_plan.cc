// SPDX-License-Identifier: Apache-2.0
#include "job/plan/run_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "trainer/callbacks/monitors/device_peaks.h"
#include "trainer/parallel/fsdp/shard_units.h"
#include "trainer/step_shape.h"

namespace composer {
namespace {

constexpr int64_t kLibraries = int64_t{1} << 30;  // CUDA's context and the libraries' workspaces

int64_t CeilOf(int64_t a, int64_t b) { return (a + b - 1) / b; }

// As FlatShard lays a unit's parameters out, without its padding.
PlannedShard ShardOf(const ShardUnit& unit, const FsdpOptions& options, int64_t shards) {
  PlannedShard shard;
  int64_t trainable = 0;
  for (const auto& [name, param] : unit.params) {
    shard.params += param.numel();
    trainable += param.requires_grad() ? param.numel() : 0;
    shard.largest_bytes = std::max(shard.largest_bytes, static_cast<int64_t>(param.nbytes()));
  }
  const auto whole = static_cast<int64_t>(c10::elementSize(options.param_dtype));
  const auto reduced = static_cast<int64_t>(c10::elementSize(options.reduce_dtype));
  shard.whole_bytes = shard.params * whole;
  shard.reduce_bytes = trainable > 0 ? shard.params * reduced : 0;
  shard.shard_bytes = CeilOf(shard.params, shards) * static_cast<int64_t>(sizeof(float));
  return shard;
}

PlannedMemory WholeMemory(const PlannedModel& model, int64_t tensor_ranks) {
  PlannedMemory memory;
  memory.parameters = CeilOf(model.parameters, tensor_ranks) * static_cast<int64_t>(sizeof(float));
  memory.gradients = CeilOf(model.trainable, tensor_ranks) * static_cast<int64_t>(sizeof(float));
  return memory;
}

std::string Count(double number) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t unit = 0;
  for (; number >= 1000 && unit + 1 < std::size(kUnits); ++unit) number /= 1000;
  return absl::StrFormat("%.3g%s%s", number, unit > 0 ? " " : "", kUnits[unit]);
}

std::string Seconds(double seconds) {
  if (seconds < 1) return absl::StrFormat("%.3g ms", 1000 * seconds);
  if (seconds < 120) return absl::StrFormat("%.3g s", seconds);
  if (seconds < 7200) return absl::StrFormat("%.3g minutes", seconds / 60);
  return seconds < 2 * 86400 ? absl::StrFormat("%.3g hours", seconds / 3600)
                             : absl::StrFormat("%.3g days", seconds / 86400);
}

MathType MathOf(Precision precision) {
  if (precision == Precision::kAmpFp16) return MathType::kFp16;
  if (precision == Precision::kAmpFp8) return MathType::kFp8;
  return precision == Precision::kAmpBf16 ? MathType::kBf16 : MathType::kFp32;
}

// Returns the steps of the run, 0 if they are not known from max_duration alone.
double StepsOf(const TrainerOptions& options, const PlannedModel& model, const PlannedRanks& ranks) {
  const Time duration = ScaledMaxDuration(options);
  const auto count = static_cast<double>(duration.count());
  if (duration.unit() == TimeUnit::kBatch) return count;
  if (duration.unit() == TimeUnit::kSample) return count / static_cast<double>(ranks.global_samples);
  if (duration.unit() == TimeUnit::kToken && model.tokens_per_sample > 0)
    return count / static_cast<double>(ranks.global_samples * model.tokens_per_sample);
  return 0;
}

std::string Advice(const PlannedModel& model, const PlannedRanks& ranks, double missing,
                   const TrainerOptions& options) {
  std::vector<std::string> ways;
  if (!ranks.sharded && ranks.ranks > 1) ways.emplace_back("fsdp_config: {sharding_strategy: FULL_SHARD}");
  if (model.activation_bytes.value_or(0) > missing && !options.activations.checkpoint.any())
    ways.emplace_back("fsdp_config.activation_checkpointing: true");
  if (ranks.microbatch > 1) ways.emplace_back("a smaller device_train_microbatch_size");
  ways.emplace_back("more ranks");
  ways.emplace_back("fsdp_config.cpu_offload: true");
  std::string text;
  for (const std::string& way : ways) absl::StrAppend(&text, text.empty() ? "" : ", or ", way);
  return text;
}

// Adds a unit's collectives in a step. The root stays whole for the whole step, as all units do with SHARD_GRAD_OP.
void AddUnit(const ShardPlan& plan, size_t unit, int64_t passes, StepTraffic& traffic) {
  const bool again = unit > 0 && plan.options.strategy == ShardingStrategy::kFullShard;
  const PlannedShard& shard = plan.units[unit].shards[0];
  const int64_t gathers = again ? 2 * passes : 1;
  traffic.gathers += gathers;
  traffic.gathered += static_cast<double>(gathers * shard.whole_bytes);
  if (shard.reduce_bytes == 0) return;
  traffic.scatters += passes;
  traffic.scattered += static_cast<double>(passes * shard.reduce_bytes);
  traffic.reduces += plan.degrees.replicate > 1 ? 1 : 0;
  traffic.reduced += static_cast<double>(plan.degrees.replicate > 1 ? shard.shard_bytes : 0);
}

StepTraffic ShardedTraffic(const ShardPlan& plan, int64_t passes) {
  StepTraffic traffic;
  for (size_t unit = 0; unit < plan.units.size(); ++unit) AddUnit(plan, unit, passes, traffic);
  if (plan.units.empty()) return traffic;
  // The root is gathered first and, as what is nearest to the inputs, summed last.
  traffic.first = static_cast<double>(plan.units[0].shards[0].whole_bytes);
  traffic.last = static_cast<double>(plan.units[0].shards[0].reduce_bytes);
  traffic.overlaps = plan.options.overlap_communication;
  return traffic;
}

StepTraffic WholeTraffic(int64_t gradients, const TrainerOptions& options) {
  StepTraffic traffic;
  traffic.reduced = static_cast<double>(gradients);
  traffic.reduces = CeilOf(gradients, options.ddp.bucket_bytes);
  traffic.last = static_cast<double>(std::min(gradients, options.ddp.bucket_bytes));
  return traffic;
}

std::string FitText(const PlannedModel& model, const PlannedRanks& ranks, const GpuKind& gpu,
                    const TrainerOptions& options) {
  const double used = static_cast<double>(ranks.memory.total() + model.activation_bytes.value_or(0) + kLibraries);
  const double left = gpu.memory_bytes - used;
  const std::string of = absl::StrCat(" of ", Megabytes(static_cast<int64_t>(gpu.memory_bytes)), " (", gpu.name, ")");
  if (left < 0)
    return absl::StrCat("does not fit: ", Megabytes(static_cast<int64_t>(-left)), " more than", of.substr(3), "; try ",
                        Advice(model, ranks, -left, options), "\n");
  if (model.activation_bytes.has_value())
    return absl::StrCat("fits: ", Megabytes(static_cast<int64_t>(left)), of, " are left\n");
  return absl::StrCat(Megabytes(static_cast<int64_t>(left)), of, " are left for activations\n");
}

std::string TimeText(const PlannedModel& model, const PlannedRanks& ranks, const GpuKind& gpu,
                     const TrainerOptions& options) {
  const PlannedTime time = TimeOfStep(model, ranks, gpu, options.precision);
  if (time.step_seconds == 0)
    return absl::StrCat("time: no training of such a model on ", gpu.name, " in this precision is known\n");
  const double samples = static_cast<double>(ranks.global_samples) / time.step_seconds;
  std::string text = absl::StrFormat("time: %s a step, %s samples/s", Seconds(time.step_seconds), Count(samples));
  if (model.tokens_per_sample > 0)
    absl::StrAppendFormat(&text, ", %s tokens/s", Count(samples * static_cast<double>(model.tokens_per_sample)));
  const double steps = StepsOf(options, model, ranks);
  if (steps > 0) absl::StrAppendFormat(&text, "; %s for %s steps", Seconds(steps * time.step_seconds), Count(steps));
  absl::StrAppendFormat(&text, "\n  if it reaches %.1f %% of the peak of %s FLOP/s, as %s did (%s)\n",
                        100 * time.like->mfu, Count(time.peak_flops), time.like->what, time.like->source);
  if (time.network != nullptr && time.traffic.seconds > 0)
    absl::StrAppendFormat(&text, "  network: %s a step, %s of them beside computation; MFU %.1f %% (%s)\n",
                          Seconds(time.traffic.seconds), ranks.traffic.overlaps ? "all but the ends" : "none",
                          100 * time.mfu, time.network->machine);
  return text;
}

std::string TableText(const PlannedModel& model, const std::vector<PlannedRanks>& rows,
                      const std::optional<GpuKind>& gpu, const TrainerOptions& options) {
  std::string text = absl::StrFormat("  %6s %9s %13s %12s %12s %12s %12s %7s\n", "ranks", "samples", "microbatches",
                                     "memory", "sent a step", "network", "step", "MFU");
  for (const PlannedRanks& row : rows) {
    const PlannedTime time = gpu.has_value() ? TimeOfStep(model, row, *gpu, options.precision) : PlannedTime{};
    absl::StrAppendFormat(&text, "  %6d %9d %13d %12s %12s %12s %12s %7s\n", row.ranks, row.global_samples, row.passes,
                          Megabytes(row.memory.total()), Megabytes(row.sent_bytes),
                          time.network != nullptr ? Seconds(time.traffic.seconds) : "-",
                          time.step_seconds > 0 ? Seconds(time.step_seconds) : "-",
                          time.step_seconds > 0 ? absl::StrFormat("%.1f %%", 100 * time.mfu) : "-");
  }
  return text;
}

}  // namespace

absl::StatusOr<PlannedRanks> PlanRanks(Model& model, const PlannedModel& planned, const TrainerOptions& options,
                                       int ranks) {
  PlannedRanks result;
  result.ranks = ranks;
  ASSIGN_OR_RETURN(const StepShape shape, StepShapeOf(options, ranks));
  result.global_samples = options.train.global_train_batch_size > 0
                              ? options.train.global_train_batch_size
                              : options.train.device_train_batch_size * shape.data_ranks();
  result.microbatch = shape.rows;
  result.passes = shape.passes;
  result.sharded = shape.sharded;
  const int64_t split = shape.mesh.tensor;
  const double kept = planned.optimizer_bytes_per_parameter * static_cast<double>(CeilOf(planned.trainable, split));
  if (!shape.sharded) {
    result.memory = WholeMemory(planned, split);
    result.memory.optimizer = std::llround(kept);
    const double others = shape.data_ranks() - 1;
    result.sent_bytes = std::llround(2 * others / (others + 1) * static_cast<double>(result.memory.gradients));
    result.traffic = WholeTraffic(result.memory.gradients, options);
    result.traffic.tensor = shape.mesh.tensor;
    result.traffic.replicate = shape.data_ranks();
    return result;
  }
  ShardPlan plan;
  plan.options = *options.fsdp;
  plan.degrees = {shape.mesh.shard, shape.mesh.replicate};
  for (const ShardUnit& unit : FindShardUnits(model, *options.fsdp))
    plan.units.push_back({unit.name, {ShardOf(unit, *options.fsdp, int64_t{shape.mesh.shard} * split)}});
  plan.optimizer_bytes = std::llround(kept / shape.mesh.shard);
  result.memory = MemoryOf(plan);
  result.memory.state_on_host = options.fsdp->cpu_offload && !options.device.is_cpu();
  result.sent_bytes = WireBytesOf(plan) * shape.passes;
  result.traffic = ShardedTraffic(plan, shape.passes);
  result.traffic.tensor = shape.mesh.tensor;
  result.traffic.shard = shape.mesh.shard;
  result.traffic.replicate = shape.mesh.replicate;
  return result;
}

PlannedTime TimeOfStep(const PlannedModel& model, const PlannedRanks& ranks, const GpuKind& gpu, Precision precision) {
  PlannedTime time;
  time.peak_flops = PeakFlops(gpu.device_name, MathOf(precision)).value_or(0);
  if (model.tokens_per_sample > 0 && precision == Precision::kAmpBf16)
    time.like = NearestTraining(gpu, static_cast<double>(model.parameters));
  time.network = NetworkOf(gpu);
  if (time.network != nullptr) time.traffic = TimeOf(ranks.traffic, *time.network);
  if (time.like == nullptr || time.peak_flops <= 0 || model.flops_per_sample <= 0) return time;
  const double at_peak =
      model.flops_per_sample * static_cast<double>(ranks.global_samples) / (ranks.ranks * time.peak_flops);
  const double compute = at_peak / time.like->mfu, hidden = time.traffic.seconds - time.traffic.ends;
  time.step_seconds = (ranks.traffic.overlaps ? std::max(compute, hidden) : compute + hidden) + time.traffic.ends;
  time.mfu = at_peak / time.step_seconds;
  return time;
}

std::string RunPlanText(const PlannedModel& model, const PlannedRanks& ranks, const std::vector<PlannedRanks>& others,
                        const std::optional<GpuKind>& gpu, const TrainerOptions& options) {
  std::string text =
      absl::StrFormat("%d parameters, %d of them trained; %d rank%s, %s\n", model.parameters, model.trainable,
                      ranks.ranks, ranks.ranks == 1 ? "" : "s", ranks.sharded ? "sharded" : "not sharded");
  const PlannedMemory& m = ranks.memory;
  absl::StrAppend(&text, "memory of a rank: ", Megabytes(m.total() + model.activation_bytes.value_or(0)), "\n");
  const std::pair<const char*, int64_t> causes[] = {{"parameters", m.parameters},
                                                    {"gradients", m.gradients},
                                                    {"optimizer", m.optimizer},
                                                    {"whole units and sums on their way", m.buffers + m.one_gradient},
                                                    {"activations and batches", model.activation_bytes.value_or(0)}};
  for (const auto& [name, bytes] : causes) {
    if (bytes > 0) absl::StrAppendFormat(&text, "  %-36s %14s\n", name, Megabytes(bytes));
  }
  if (!model.activation_bytes.has_value())
    absl::StrAppend(&text, "  activations are not counted: ", model.why_no_activations, "\n");
  absl::StrAppendFormat(&text, "step: %d samples%s, %d microbatch%s of %d a rank; a rank sends %s\n",
                        ranks.global_samples,
                        model.tokens_per_sample > 0 ? absl::StrCat(" of ", model.tokens_per_sample, " tokens") : "",
                        ranks.passes, ranks.passes == 1 ? "" : "es", ranks.microbatch, Megabytes(ranks.sent_bytes));
  if (model.flops_per_sample > 0)
    absl::StrAppendFormat(&text, "operations: %s FLOP a sample, %s a step\n", Count(model.flops_per_sample),
                          Count(model.flops_per_sample * static_cast<double>(ranks.global_samples)));
  if (gpu.has_value())
    absl::StrAppend(&text, FitText(model, ranks, *gpu, options), TimeText(model, ranks, *gpu, options));
  if (!others.empty()) {
    absl::StrAppend(&text, "with other numbers of ranks (memory without activations):\n",
                    TableText(model, others, gpu, options));
  }
  return text;
}

}  // namespace composer
