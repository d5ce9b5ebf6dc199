// In-context evaluation: `icl_tasks`, as llm-foundry has it, as evaluations of a job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"
#include "trainer/callbacks/monitors/eval_gauntlet.h"
#include "trainer/options/trainer_options.h"

namespace composer {

struct IclEvaluation {
  std::string task;                // "copa/0-shot": its label, without a category
  std::vector<std::string> paths;  // the task's files
  std::string key;                 // "icl_tasks.0", for messages
  EvaluatorOptions options;        // with metrics of its own; without a dataset and an interval
  std::function<absl::StatusOr<std::shared_ptr<const Dataset>>(const DataContext&)> open;
};

// Reads root.icl_tasks, icl_seq_len and icl_subset_num_batches: an evaluation for each number of examples of each task,
// named <label>/<n>-shot, or one for each category of its lines, <label>/<n>-shot/<category>. Errors go to the reader.
std::vector<IclEvaluation> ReadIclTasks(ConfigMap root);

// Reads root.eval_gauntlet, the averages of these tasks; nullopt if there is none. Errors go to the reader.
std::optional<EvalGauntletOptions> ReadEvalGauntlet(ConfigMap root, const std::vector<IclEvaluation>& tasks);

}  // namespace composer
