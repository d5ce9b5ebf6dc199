// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/trainer_options.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/options/mesh_shape.h"

namespace composer {
namespace {

template <typename Value>
absl::Status Bad(absl::string_view field, const Value& value, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is not allowed; ", allowed));
}

// Iterations are counted only where they have a length.
absl::Status ValidateUnit(absl::string_view field, const Time& time, const TrainerOptions& options) {
  if (time.unit() != TimeUnit::kIteration || options.iteration_length.count() > 0) return absl::OkStatus();
  return Bad(field, time.ToString(),
             "iterations need an iteration_length; else use ep, ba, sp, tok, dur or a wall-clock time");
}

absl::Status ValidateTimes(const TrainerOptions& options) {
  const Time& max_duration = options.max_duration;
  if (max_duration.value() != 0) RETURN_IF_ERROR(ValidateDuration("max_duration", max_duration, options));
  RETURN_IF_ERROR(ValidateScaleScheduleRatio(options.scale_schedule_ratio, max_duration));
  const Time& iteration = options.iteration_length;
  if (iteration.value() < 0 ||
      (iteration.value() > 0 && iteration.unit() != TimeUnit::kEpoch && iteration.unit() != TimeUnit::kToken))
    return Bad("iteration_length", iteration.ToString(), "it is a number of epochs or tokens");
  return absl::OkStatus();
}

absl::Status ValidateSave(const SaveOptions& save, const TrainerOptions& options, int world_size) {
  const int keep = save.save_num_checkpoints_to_keep;
  if (keep == 0 || keep < -1)
    return Bad("save_num_checkpoints_to_keep", keep, "it must be at least 1, or -1 to keep all");
  if (world_size > 1 && !save.save_folder.empty() && options.store == nullptr)
    return absl::InvalidArgumentError("store: several ranks need one to coordinate checkpoints");
  return ValidateUnit("save_interval", save.save_interval.every(), options);
}

absl::Status ValidateElastic(const TrainerOptions& options) {
  if (options.virtual_shards == 0) return absl::OkStatus();
  if (options.device_train_microbatch_size == kAutoMicrobatch) {
    return absl::InvalidArgumentError(
        "device_train_microbatch_size: auto does not go with determinism: elastic, where it is part of the result; "
        "give "
        "a number of samples");
  }
  const bool sharded = options.fsdp && options.fsdp->strategy != ShardingStrategy::kNoShard;
  if (sharded && options.fsdp->reduce_dtype != at::kFloat) {
    return Bad("fsdp mixed_precision reduce_dtype", c10::toString(options.fsdp->reduce_dtype),
               "determinism: elastic sums gradients in float32: use FULL, DEFAULT, or reduce_dtype: float32");
  }
  if (options.ddp.sync_strategy == DdpSyncStrategy::kMultiAutoSync)
    return absl::InvalidArgumentError(
        "determinism: elastic sums once a step: not with ddp_sync_strategy multi_auto_sync");
  if (options.ddp.gradient_compression != GradientCompression::kNone)
    return absl::InvalidArgumentError("determinism: elastic needs ddp_config gradient_compression: none");
  if (!options.device.is_cpu())
    return absl::InvalidArgumentError("determinism: elastic needs device: cpu: NCCL's sums have an order of their own");
  return absl::OkStatus();
}

absl::Status ValidateTensorParallel(const TrainerOptions& options) {
  if (options.tensor_parallel_degree <= 1) return absl::OkStatus();
  if (!options.split_model && options.layer_plan.empty())
    return Bad("tensor_parallel_degree", options.tensor_parallel_degree,
               "needs layer_plan or split_model: how the model is split over ranks");
  if (options.virtual_shards != 0)
    return absl::InvalidArgumentError(
        "determinism: elastic does not go with tensor_parallel_degree: sums inside a split matrix product depend on "
        "it");
  if (options.device_train_microbatch_size == kAutoMicrobatch)
    return absl::InvalidArgumentError(
        "device_train_microbatch_size: auto does not go with tensor_parallel_degree: a rank that runs out of memory "
        "within a layer would leave its group waiting; give a number of samples");
  return absl::OkStatus();
}

absl::Status ValidateFp8(const TrainerOptions& options) {
  if (options.precision != Precision::kAmpFp8) return absl::OkStatus();
  const Fp8Recipe& recipe = options.precision_config;
  if (recipe.amax_history_len < 1)
    return Bad("precision_config amax_history_len", recipe.amax_history_len, "it must be at least 1");
  if (recipe.margin < 0 || recipe.margin > 16)
    return Bad("precision_config margin", recipe.margin, "it must be in 0 to 16");
  if (options.tensor_parallel_degree > 1) {
    return absl::InvalidArgumentError(
        "precision: amp_fp8 does not go with tensor_parallel_degree: each rank would scale its part of a weight by an "
        "amax of its own; shard by fsdp, or write amp_bf16");
  }
  return absl::OkStatus();
}

absl::Status ValidateAttention(const TrainerOptions& options) {
  const AttentionRun run{!options.device.is_cpu(), options.precision != Precision::kFp32, options.deterministic_mode};
  return AttentionKernels(options.attention_backend, run).status();
}

absl::Status ValidateMesh(const TrainerOptions& options, int world_size) {
  RETURN_IF_ERROR(ValidateTensorParallel(options));
  RETURN_IF_ERROR(ValidateFp8(options));
  MeshShape mesh;
  RETURN_IF_ERROR(PlanMesh(options.fsdp ? &*options.fsdp : nullptr, options.tensor_parallel_degree, world_size, mesh));
  if (options.fsdp && options.fsdp->cpu_offload && mesh.replicate > 1 && mesh.shard > 1 && !options.device.is_cpu())
    return Bad("fsdp cpu_offload", "true", "gradients in host memory can't be summed over replicas of a GPU run");
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateTrainData(const TrainDataOptions& train, int data_ranks) {
  if (train.dataset == nullptr) return absl::InvalidArgumentError("train_dataloader: required");
  if (train.dataset->size() == 0) return absl::InvalidArgumentError("train_dataloader: the dataset is empty");
  if (train.dataset->iterable() != nullptr && train.make_order)
    return absl::InvalidArgumentError(
        "train_dataloader: order: the samples of this dataset can only be read in its own order; leave `order` out");
  if (train.global_train_batch_size < 0)
    return Bad("global_train_batch_size", train.global_train_batch_size, "it must be at least 1");
  if (train.device_train_batch_size < 0)
    return Bad("device_train_batch_size", train.device_train_batch_size, "it must be at least 1");
  if (train.global_train_batch_size == 0 && train.device_train_batch_size == 0) {
    return absl::InvalidArgumentError(
        "global_train_batch_size: required (or device_train_batch_size, the samples of one rank)");
  }
  if (train.global_train_batch_size > 0 && train.global_train_batch_size < data_ranks) {
    return Bad(
        "global_train_batch_size", train.global_train_batch_size,
        absl::StrCat("each of the ", data_ranks, " ranks needs at least one sample: raise it or use fewer ranks"));
  }
  return absl::OkStatus();
}

absl::Status ValidateLength(const TrainDataOptions& train, const Time& max_duration) {
  const bool known = train.dataset->size() != kUnknownSize || train.train_subset_num_batches > 0;
  if (known || max_duration.unit() != TimeUnit::kEpoch) return absl::OkStatus();
  return Bad("max_duration", max_duration.ToString(),
             "the length of an epoch is not known, because train_dataloader is read in order: give batches (1000ba), "
             "samples (sp), tokens (tok) or a wall-clock time, or set train_subset_num_batches");
}

absl::Status ValidateEvaluators(const std::vector<EvaluatorOptions>& evaluators, const TrainerOptions& options) {
  std::set<std::string> labels;
  for (const EvaluatorOptions& evaluator : evaluators) {
    if (evaluator.dataset == nullptr || evaluator.dataset->size() == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("eval_dataloader ", evaluator.label, ": the dataset is missing or empty"));
    if (evaluator.batch_size < 1)
      return Bad(absl::StrCat("eval_dataloader ", evaluator.label, " batch_size"), evaluator.batch_size,
                 "it must be at least 1");
    const bool sharded = options.fsdp && options.fsdp->strategy != ShardingStrategy::kNoShard;
    if (evaluator.device_eval_microbatch_size == kAutoMicrobatch && (sharded || options.tensor_parallel_degree > 1))
      return absl::InvalidArgumentError(
          "device_eval_microbatch_size: auto does not go with a sharded or split model: a rank that runs out of memory "
          "within a pass would leave the others waiting; give a number of samples");
    RETURN_IF_ERROR(ValidateUnit("eval_interval", evaluator.eval_interval.every(), options));
    if (!labels.insert(evaluator.label).second)
      return Bad("eval_dataloader label", evaluator.label, "another evaluation has this label: each needs its own");
  }
  return absl::OkStatus();
}

absl::Status ValidateScaleScheduleRatio(double ratio, const Time& max_duration) {
  if (!(ratio > 0)) return Bad("scale_schedule_ratio", ratio, "it must be more than 0");
  if (max_duration.value() == 0 || ScaledTime(max_duration, ratio).value() > 0) return absl::OkStatus();
  return Bad("scale_schedule_ratio", ratio, absl::StrCat("it makes max_duration (", max_duration.ToString(), ") 0"));
}

absl::Status ValidateDuration(absl::string_view field, const Time& duration, const TrainerOptions& options) {
  if (duration.unit() == TimeUnit::kDuration)
    return Bad(field, duration.ToString(),
               "it can't be a fraction of itself: use ep, ba, sp, tok or a wall-clock time");
  if (duration.value() <= 0) return Bad(field, duration.ToString(), "it must be more than 0");
  return ValidateUnit(field, duration, options);
}

Time ScaledTime(const Time& time, double ratio) {
  if (time.unit() == TimeUnit::kDuration) return time;
  return Time(static_cast<int64_t>(time.value() * ratio), time.unit());
}

Time ScaledMaxDuration(const TrainerOptions& options) {
  return ScaledTime(options.max_duration, options.scale_schedule_ratio);
}

absl::Status Validate(const TrainerOptions& options, int world_size) {
  if (options.model == nullptr && !options.make_model) return absl::InvalidArgumentError("model: required");
  if (options.model != nullptr && options.make_model)
    return absl::InvalidArgumentError("make_model: the model is given, too; give one of them");
  if (options.device_train_microbatch_size < 0 && options.device_train_microbatch_size != kAutoMicrobatch)
    return Bad("device_train_microbatch_size", options.device_train_microbatch_size,
               "it must be at least 1, 0 for the whole batch, or auto");
  RETURN_IF_ERROR(ValidateSave(options.save, options, world_size));
  for (const SaveOptions& saver : options.checkpoint_savers) {
    if (saver.save_folder.empty()) return absl::InvalidArgumentError("checkpoint_saver: a folder is required");
    RETURN_IF_ERROR(Annotate(ValidateSave(saver, options, world_size), "checkpoint_saver"));
  }
  RETURN_IF_ERROR(ValidateElastic(options));
  RETURN_IF_ERROR(ValidateAttention(options));
  RETURN_IF_ERROR(ValidateMesh(options, world_size));
  RETURN_IF_ERROR(ValidateTimes(options));
  RETURN_IF_ERROR(ValidateEvaluators(options.evaluators, options));
  if (options.train.dataset == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(ValidateLength(options.train, options.max_duration));
  return ValidateTrainData(options.train, world_size / options.tensor_parallel_degree);
}

}  // namespace composer
