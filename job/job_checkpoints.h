// Saving and loading as a job's YAML sets them: the keys save_*, load_*, autoresume, and the callbacks checkpoint_saver
// and load_checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/job_callbacks.h"
#include "trainer/options/trainer_options.h"

namespace composer {

// Reads root's keys. Checkpoints go to run_folder unless save_folder says otherwise; {run_name} in save_folder is
// filled in. Errors go to the reader.
SaveOptions ReadSaving(ConfigMap& root, const std::string& run_name, const std::string& run_folder);
LoadOptions ReadLoading(ConfigMap& root);

// Reads every callbacks.checkpoint_saver: {folder, filename, latest_filename, save_interval, num_checkpoints_to_keep,
// overwrite, weights_only, async, overlap, ignore_keys, save_metrics, top_k}. {run_name} is filled in.
std::vector<SaveOptions> ReadCheckpointSavers(ConfigMap& root, const std::string& run_name);

// Reads callbacks.load_checkpoint: {load_path, load_weights_only, strict_model_weights, ignore_keys,
// exclude_algorithms, event}.
CallbackFactory ReadLoadCheckpoint(ConfigMap config);

}  // namespace composer
