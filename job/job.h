// Reads a job's YAML into the parts of a Trainer. Keys are Composer's Trainer argument names; docs/configuration.md
// lists them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "config/config_map.h"
#include "config/node.h"
#include "job/job_algorithms.h"
#include "job/job_callbacks.h"
#include "job/job_data.h"
#include "job/job_loggers.h"
#include "job/job_model.h"
#include "job/job_optimizer.h"
#include "job/job_profiler.h"
#include "job/job_scheduler.h"
#include "job/plugin/plugin_registry.h"
#include "trainer/callbacks/monitors/eval_gauntlet.h"
#include "trainer/collectives/host_group.h"
#include "trainer/options/trainer_options.h"

namespace composer {

// Stands in TrainerOptions::seed for `seed: random`, until the ranks have met and settled it (worker/job_seed.h). No
// file can give it.
inline constexpr uint64_t kSeedToSettle = ~uint64_t{0};

// Everything the YAML says; checked, but nothing is built yet.
struct Job {
  std::string run_name;
  std::string run_folder;  // absolute
  double dist_timeout_seconds = 300;
  bool gpu = false;         // device: gpu
  bool allow_tf32 = true;   // of float32 products on a GPU
  bool own_kernels = true;  // kernels: auto
  bool cuda_graphs = false;
  HostCollectives collectives = HostCollectives::kAuto;
  bool debug_collectives = false;

  std::shared_ptr<PluginRegistry> plugins;  // may have made the factories below
  TrainerOptions options;                   // without the parts below
  ModelFactory model;
  DataOpener train_dataset;
  struct Evaluation {
    EvaluatorOptions options;
    DataOpener dataset;
    std::string key;  // "icl_tasks.0" of an in-context task, which has metrics of its own and no targets; else ""
  };
  std::vector<Evaluation> evaluations;
  OptimizerFactory optimizer;
  TokenizerFactory tokenizer;  // empty: none
  std::vector<SchedulerFactory> schedulers;
  std::vector<AlgorithmFactory> algorithms;
  std::vector<CallbackFactory> callbacks;
  std::optional<EvalGauntletOptions> eval_gauntlet;
  FatalWrite fatal_write;
  LoggingOptions logging;
  std::optional<ProfilerOptions> profiler;

  ConfigNode effective;  // every setting in force; written, without secrets, to run_folder/config.yaml
  std::vector<std::string> resume_changes;
  std::string model_json;  // the key `model`, as JSON
};

struct JobSource {
  std::string yaml_path;
  std::vector<std::string> overrides;  // key=value
  std::string run_folder;              // as given by the launcher; "": from the YAML
  int world_size = 0;                  // 0: unknown
  bool trains = true;                  // false: keys that only training needs may be missing
  // For the test that compares the readers with the table of keys: records what they ask for, and skips the check
  // against the table.
  std::vector<ConfigAsk>* asks = nullptr;
};

// kInvalidArgument with one line for each mistake in the file; kNotFound for a missing file.
absl::StatusOr<Job> ReadJob(const JobSource& source, const Environment& env);

}  // namespace composer
