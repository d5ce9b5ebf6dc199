// SPDX-License-Identifier: Apache-2.0
#include "config/renamed_keys.h"

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

struct RenamedKey {
  absl::string_view old_key;
  absl::string_view new_key;
  absl::string_view note;
};

constexpr RenamedKey kRenamedKeys[] = {
    {"grad_accum", "device_train_microbatch_size", "the samples of one microbatch, not their number"},
    {"load_path_format", "load_path", ""},
    {"save_path_format", "save_filename", ""},
    {"save_name_format", "save_filename", ""},
    {"save_latest_format", "save_latest_filename", ""},
    {"amp", "precision", "amp_bf16, or fp32 for none"},
    {"fp16", "precision", "amp_bf16, or fp32 for none"},
    {"bf16", "precision", "amp_bf16, or fp32 for none"},
    {"train_batch_size", "global_train_batch_size", "the samples of one step over all ranks"},
    {"batch_size", "global_train_batch_size", "the samples of one step over all ranks"},
    {"eval_batch_size", "global_eval_batch_size", "the samples of one evaluation batch over all ranks"},
    {"device_eval_batch_size", "global_eval_batch_size", "the samples of one evaluation batch over all ranks"},
    {"max_epochs", "max_duration", "as in 10ep"},
    {"num_epochs", "max_duration", "as in 10ep"},
    {"epochs", "max_duration", "as in 10ep"},
    {"max_steps", "max_duration", "as in 500ba"},
    {"optimizers", "optimizer", "one optimizer"},
    {"scheduler", "schedulers", ""},
    {"lr_scheduler", "schedulers", ""},
    {"validate_every_n_epochs", "eval_interval", "as in 1ep"},
    {"validate_every_n_batches", "eval_interval", "as in 100ba"},
    {"checkpoint_folder", "save_folder", ""},
    {"checkpoint_interval", "save_interval", ""},
    {"fsdp_config", "parallelism_config", "as its entry `fsdp`"},
    {"seed_all", "seed", ""},
    {"deterministic", "deterministic_mode", ""},
    {"subset_num_batches", "train_subset_num_batches", ""},
};

}  // namespace

std::string RenamedKeyAdvice(absl::string_view path) {
  for (const RenamedKey& entry : kRenamedKeys) {
    if (path != entry.old_key) continue;
    return absl::StrCat("use `", entry.new_key, "`", entry.note.empty() ? "" : ": ", entry.note);
  }
  return "";
}

}  // namespace composer
