// SPDX-License-Identifier: Apache-2.0
#include "config/renamed_keys.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "config/missing_keys.h"

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
  return MissingKeyReason(path);
}

}  // namespace composer
