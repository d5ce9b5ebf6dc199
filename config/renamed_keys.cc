// SPDX-License-Identifier: Apache-2.0
#include "config/renamed_keys.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

struct RenamedKey {
  absl::string_view old_key;
  absl::string_view new_key;  // tools/check_configuration_doc.py requires it to be documented, and old_key not
  absl::string_view note;
};

constexpr RenamedKey kRenamedKeys[] = {
    {"grad_accum", "device_train_microbatch_size", "the samples of one microbatch, not their number"},
    {"load_path_format", "load_path", ""},
    {"amp", "precision", "amp_bf16, or fp32 for none"},
    {"fp16", "precision", "amp_fp16, or fp32 for none"},
    {"bf16", "precision", "amp_bf16, or fp32 for none"},
    {"train_batch_size", "global_train_batch_size", "the samples of one step over all ranks"},
    {"batch_size", "global_train_batch_size", "the samples of one step over all ranks"},
    {"microbatch_size", "device_train_microbatch_size", "the samples of one forward and backward pass"},
    {"eval_batch_size", "eval_dataloader", "its `batch_size`, the samples of one rank"},
    {"device_eval_batch_size", "eval_dataloader", "its `batch_size`, the samples of one rank; there is none here"},
    {"global_eval_batch_size", "eval_dataloader", "its `batch_size`, the samples of one rank"},
    {"device_eval_microbatch_size", "eval_dataloader", "its `device_eval_microbatch_size`"},
    {"max_epochs", "max_duration", "as in 10ep"},
    {"num_epochs", "max_duration", "as in 10ep"},
    {"epochs", "max_duration", "as in 10ep"},
    {"max_steps", "max_duration", "as in 500ba"},
    {"duration", "max_duration", "as in 10ep"},
    {"optimizer", "optimizers", "one optimizer"},
    {"scheduler", "schedulers", ""},
    {"lr_scheduler", "schedulers", ""},
    {"train_loader", "train_dataloader", ""},
    {"eval_loader", "eval_dataloader", ""},
    {"eval_loaders", "eval_dataloader", "a list of them"},
    {"evaluators", "eval_dataloader", "a list of them"},
    {"validate_every_n_epochs", "eval_interval", "as in 1ep"},
    {"validate_every_n_batches", "eval_interval", "as in 100ba"},
    {"checkpoint_folder", "save_folder", ""},
    {"checkpoint_interval", "save_interval", ""},
    {"num_checkpoints_to_keep", "save_num_checkpoints_to_keep", ""},
    {"name", "run_name", ""},
    {"seed_all", "seed", ""},
    {"global_seed", "seed", ""},
    {"deterministic", "deterministic_mode", ""},
    {"subset_num_batches", "train_subset_num_batches", ""},
    {"metrics", "eval_dataloader", "its `metric_names`"},
};

// These mean the same by another name, so they are accepted.
constexpr absl::string_view kAccepted[] = {"optimizer",   "scheduler",    "lr_scheduler", "train_loader",
                                           "eval_loader", "eval_loaders", "evaluators",   "max_epochs",
                                           "num_epochs",  "epochs",       "seed_all",     "global_seed"};
constexpr absl::string_view kEvalBatchSize = "device_eval_batch_size";

constexpr absl::string_view kCheckpointNames =
    "checkpoints are folders with names of their own, ep1-ba20, below `save_folder`";
constexpr absl::string_view kFsdpAlways = "leave it out: parameters keep their names, shapes and groups always";
constexpr absl::string_view kFsdpCheckpoints =
    "leave it out: each rank writes and reads its part of the checkpoint, and any number of ranks can resume from it";

struct MissingKey {
  absl::string_view key;
  absl::string_view why;
};

// Arguments of mosaicml 0.32.1's Trainer come first, then their older names.
constexpr MissingKey kMissingKeys[] = {
    {"spin_dataloaders",
     "leave it out: which samples a batch has is a function of seed and position, so that nothing is skipped over when "
     "a "
     "run goes on"},
    {"algorithm_passes",
     "leave it out: passes over algorithms are registered in C++ (EngineOptions::algorithm_passes); in a job's file "
     "the "
     "order of `algorithms` is theirs"},
    {"load_object_store", "`load_path` takes a folder, or s3://, gs:// or oci:// itself"},
    {"load_progress_bar", "leave it out: loading shows no progress bar"},
    {"save_metrics", "leave it out: metrics that were being added up begin anew when a run goes on"},
    {"precision_config", "`precision` is fp32, amp_bf16 or amp_fp16; fp8 is not among them"},
    {"python_log_level",
     "leave it out: there is no Python; `composer` and its workers log to stderr and to the run's logs/"},
    {"compile_config", "leave it out: torch.compile needs Python; models are native already"},
    {"save_path_format", kCheckpointNames},
    {"save_name_format", kCheckpointNames},
    {"save_latest_format", kCheckpointNames},
    {"find_unused_parameters", "`ddp_config`: {find_unused_parameters: true}"},
    {"fsdp_config.use_orig_params", kFsdpAlways},
    {"fsdp_config.state_dict_type", kFsdpCheckpoints},
    {"fsdp_config.sharded_ckpt_prefix_dir", kFsdpCheckpoints},
    {"fsdp_config.load_monolith_rank0_only", kFsdpCheckpoints},
    {"parallelism_config.fsdp.use_orig_params", kFsdpAlways},
    {"parallelism_config.fsdp.state_dict_type", kFsdpCheckpoints},
    {"parallelism_config.fsdp.load_monolith_rank0_only", kFsdpCheckpoints},
    {"parallelism_config.tp.device_mesh", "leave it out: the mesh follows from the degrees and the number of ranks"},
    {"deepspeed_config", "use `parallelism_config`: {fsdp: {sharding_strategy: FULL_SHARD}}"},
    {"auto_microbatching", "use `device_train_microbatch_size`: auto"},
    {"dist_backend", "leave it out: gloo on a CPU, NCCL on a GPU"},
};

}  // namespace

std::string AcceptedKey(absl::string_view top_key) {
  const bool accepted = std::find(std::begin(kAccepted), std::end(kAccepted), top_key) != std::end(kAccepted);
  for (const RenamedKey& entry : kRenamedKeys) {
    if (accepted && top_key == entry.old_key) return std::string(entry.new_key);
  }
  return "";
}

absl::Status AcceptForeignKeys(ConfigNode& root) {
  for (ConfigNode& child : root.children) {
    const std::string key = AcceptedKey(child.key);
    if (key.empty()) continue;
    if (const ConfigNode* other = root.Find(key)) {
      return absl::InvalidArgumentError(absl::StrCat(child.key_mark.ToString(), ": ", child.key,
                                                     ": is another name of `", key, "`, which is given at ",
                                                     other->key_mark.ToString()));
    }
    child.key = key;
  }
  const auto size = std::find_if(root.children.begin(), root.children.end(),
                                 [](const ConfigNode& child) { return child.key == kEvalBatchSize; });
  ConfigNode* evaluations = root.Find("eval_dataloader");
  if (size == root.children.end() || evaluations == nullptr) return absl::OkStatus();
  ConfigNode batch_size = *size;
  batch_size.key = "batch_size";
  root.children.erase(size);
  evaluations = root.Find("eval_dataloader");
  const auto give = [&](ConfigNode& evaluation) {
    if (evaluation.is_map() && evaluation.Find("batch_size") == nullptr) evaluation.children.push_back(batch_size);
  };
  give(*evaluations);
  for (ConfigNode& item : evaluations->children) {
    if (evaluations->is_list()) give(item);
  }
  return absl::OkStatus();
}

std::string RenamedKeyAdvice(absl::string_view path) {
  for (const RenamedKey& entry : kRenamedKeys) {
    if (path == entry.old_key)
      return absl::StrCat("use `", entry.new_key, "`", entry.note.empty() ? "" : ": ", entry.note);
  }
  for (const MissingKey& entry : kMissingKeys) {
    if (path == entry.key) return std::string(entry.why);
  }
  return "";
}

}  // namespace composer
