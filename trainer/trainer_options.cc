// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainer_options.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

template <typename Value>
absl::Status Bad(absl::string_view field, const Value& value, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is not allowed; ", allowed));
}

absl::Status ValidateData(const TrainDataOptions& train, int world_size) {
  if (train.dataset == nullptr) return absl::InvalidArgumentError("train_dataloader: required");
  if (train.dataset->size() == 0) return absl::InvalidArgumentError("train_dataloader: the dataset is empty");
  if (train.global_train_batch_size < 0)
    return Bad("global_train_batch_size", train.global_train_batch_size, "it must be at least 1");
  if (train.device_train_batch_size < 0)
    return Bad("device_train_batch_size", train.device_train_batch_size, "it must be at least 1");
  if (train.global_train_batch_size == 0 && train.device_train_batch_size == 0) {
    return absl::InvalidArgumentError(
        "global_train_batch_size: required (or device_train_batch_size, the samples of one rank)");
  }
  if (train.global_train_batch_size > 0 && train.global_train_batch_size < world_size) {
    return Bad(
        "global_train_batch_size", train.global_train_batch_size,
        absl::StrCat("each of the ", world_size, " ranks needs at least one sample: raise it or use fewer ranks"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const TrainerOptions& options, int world_size) {
  if (options.model == nullptr) return absl::InvalidArgumentError("model: required");
  if (!options.make_optimizer) return absl::InvalidArgumentError("optimizers: required");
  if (options.max_duration.unit() == TimeUnit::kDuration)
    return Bad("max_duration", options.max_duration.ToString(),
               "it can't be a fraction of itself: use ep, ba, sp, tok or a wall-clock time");
  if (options.max_duration.value() <= 0)
    return Bad("max_duration", options.max_duration.ToString(), "it must be more than 0");
  if (options.device_train_microbatch_size < 0)
    return Bad("device_train_microbatch_size", options.device_train_microbatch_size,
               "it must be at least 1, or 0 for the whole batch");
  if (options.scale_schedule_ratio <= 0)
    return Bad("scale_schedule_ratio", options.scale_schedule_ratio, "it must be more than 0");
  if (options.save.save_num_checkpoints_to_keep == 0 || options.save.save_num_checkpoints_to_keep < -1) {
    return Bad("save_num_checkpoints_to_keep", options.save.save_num_checkpoints_to_keep,
               "it must be at least 1, or -1 to keep all");
  }
  if (world_size > 1 && !options.save.save_folder.empty() && options.store == nullptr)
    return absl::InvalidArgumentError("store: several ranks need one to coordinate checkpoints");
  for (const EvaluatorOptions& evaluator : options.evaluators) {
    if (evaluator.dataset == nullptr || evaluator.dataset->size() == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("eval_dataloader ", evaluator.label, ": the dataset is missing or empty"));
    if (evaluator.batch_size < 1)
      return Bad(absl::StrCat("eval_dataloader ", evaluator.label, " batch_size"), evaluator.batch_size,
                 "it must be at least 1");
  }
  return ValidateData(options.train, world_size);
}

}  // namespace composer
