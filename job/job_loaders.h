// The keys train_dataloader, eval_dataloader and icl_tasks of a job: which samples training and evaluations read, and
// in which batches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "config/config_map.h"
#include "job/job.h"

namespace composer {

// Reads into job.options.train and job.train_dataset. `trains` false: the keys may be missing.
void ReadTrainData(ConfigMap root, bool trains, Job& job);

// Reads into job.evaluations and job.eval_gauntlet.
void ReadEvaluation(ConfigMap root, Job& job);

// Rejects pack.attn_uses_sequence_id for models in which the documents of a row would see each other.
void CheckSequenceIds(ConfigMap root, const PluginTables& plugins, const std::string& model_json);

// Returns kAutoMicrobatch for `auto`, and 0 when the key is not given.
int64_t ReadMicrobatchSize(ConfigMap& map, absl::string_view key);

}  // namespace composer
