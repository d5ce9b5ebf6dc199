// SPDX-License-Identifier: Apache-2.0
#include "job/run/build_trainer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "config/effective_config.h"
#include "fault/dying_file_system.h"
#include "job/compat/compile_config.h"
#include "job/run/job_resume.h"
#include "trainer/core/random.h"

namespace composer {
namespace {

JobFacts FactsOf(const Job& job, const TrainerOptions& options, int data_ranks) {
  JobFacts facts;
  facts.run_name = options.run_name;
  facts.run_folder = options.run_folder;
  facts.model_json = job.model_json;
  const TrainDataOptions& train = options.train;
  facts.global_batch_size =
      train.global_train_batch_size > 0 ? train.global_train_batch_size : train.device_train_batch_size * data_ranks;
  facts.train_samples = train.dataset->size();
  if (!options.evaluators.empty()) facts.eval_samples = options.evaluators[0].dataset->size();
  return facts;
}

void WarnOfWideGroups(const JobPlace& place, int tensor_parallel_degree) {
  if (place.rank != 0 || place.local_world_size % tensor_parallel_degree == 0) return;
  LOG(WARNING) << "tensor_parallel_degree " << tensor_parallel_degree << " does not divide the "
               << place.local_world_size << " ranks of a node: groups span nodes, and their collectives are slow";
}

void WarnOfCompileConfig(const ConfigNode& effective, const JobPlace& place) {
  const std::string text = WhatReplacesCompile(effective);
  if (place.rank == 0 && !text.empty()) LOG(WARNING) << text;
}

// Sets what checkpoints keep of the configuration, and how a kept configuration is judged when the run resumes.
absl::Status AddResume(const Job& job, const JobPlace& place, TrainerOptions& options) {
  ASSIGN_OR_RETURN(const KeptConfig kept, KeepConfigOfRun(job.effective, job.run_folder, /*make_key=*/place.rank == 0));
  options.configuration = SerializeKept(kept);
  options.may_change = [changes = job.resume_changes](absl::string_view path) { return MayChange(changes, path); };
  options.save.on_resume = [kept, changes = job.resume_changes, rank = place.rank](const ResumePoint& point) {
    const absl::StatusOr<std::string> said = JudgeResume(point, kept, changes);
    if (said.ok() && rank == 0) absl::FPrintF(stderr, "%s\n", *said);
    return said.status();
  };
  // These write at the end of a complete run even when it is merely started again.
  const std::vector<Setting> settings = ListSettings(job.effective);
  const bool writes_at_end = std::any_of(settings.begin(), settings.end(), [](const Setting& setting) {
    return absl::StrContains(setting.path, ".export_for_inference") || absl::StrContains(setting.path, ".generate.") ||
           absl::StrContains(setting.path, ".log_diffusion_images");
  });
  options.has_ended = place.rank == 0 && place.generation == 1 && !writes_at_end && HasEnded(job.run_folder);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Dataset>> OpenDataset(const DataOpener& open, const DataContext& context,
                                                           absl::string_view key) {
  absl::StatusOr<std::shared_ptr<const Dataset>> dataset = open(context);
  const bool of_file = absl::IsNotFound(dataset.status()) || absl::IsPermissionDenied(dataset.status());
  if (!dataset.ok()) return Annotate(dataset.status(), absl::StrCat(key, of_file ? ".path" : ""));
  return dataset;
}

// Makes the tokenizer, once.
DataContext ContextOf(Job& job, const JobPlace& place) {
  if (job.options.tokenizer == nullptr && job.tokenizer) job.options.tokenizer = job.tokenizer();
  return {.tokenizer = job.options.tokenizer,
          .open_store = WithPluginStores(job.plugins, place.open_store),
          .seed = job.options.seed,
          .rank = place.rank,
          .world_size = place.world_size,
          .local_rank = place.local_rank,
          .local_world_size = place.local_world_size};
}

}  // namespace

absl::Status OpenEvaluationData(Job& job, const JobPlace& place) {
  const DataContext context = ContextOf(job, place);
  for (size_t i = 0; i < job.evaluations.size(); ++i) {
    const ConfigNode* list = job.effective.Find("eval_dataloader");
    Job::Evaluation& evaluation = job.evaluations[i];
    const std::string key = !evaluation.key.empty()              ? evaluation.key
                            : list != nullptr && list->is_list() ? absl::StrCat("eval_dataloader.", i)
                                                                 : "eval_dataloader";
    ASSIGN_OR_RETURN(evaluation.options.dataset, OpenDataset(evaluation.dataset, context, key));
  }
  return absl::OkStatus();
}

absl::Status OpenData(Job& job, const JobPlace& place) {
  ASSIGN_OR_RETURN(job.options.train.dataset,
                   OpenDataset(job.train_dataset, ContextOf(job, place), "train_dataloader"));
  return OpenEvaluationData(job, place);
}

absl::StatusOr<TrainerOptions> BuildTrainerOptions(Job job, const JobPlace& at) {
  JobPlace place = at;
  place.open_store = WithPluginStores(job.plugins, at.open_store);
  RETURN_IF_ERROR(OpenData(job, place));
  TrainerOptions options = std::move(job.options);
  RETURN_IF_ERROR(AddResume(job, place, options));
  SeedForConstruction(options.seed);
  options.make_model = job.model;
  WarnOfWideGroups(place, options.tensor_parallel_degree);
  WarnOfCompileConfig(job.effective, place);
  for (const Job::Evaluation& evaluation : job.evaluations) options.evaluators.push_back(evaluation.options);
  options.visible_devices = place.visible_gpus;
  options.save.open_store = options.load.open_store = place.open_store;
  for (SaveOptions& saver : options.checkpoint_savers) saver.open_store = place.open_store;
  options.make_optimizer = job.optimizer;
  for (const SchedulerFactory& make : job.schedulers) options.schedulers.push_back(make());
  for (const AlgorithmFactory& make : job.algorithms) options.algorithms.push_back(make());
  options.make_algorithm = [plugins = job.plugins, compat = options.composer_compat](const AlgorithmOrigin& origin) {
    return MakeAlgorithm(origin, plugins->tables(), compat);
  };
  const JobFacts facts = FactsOf(job, options, place.world_size / options.tensor_parallel_degree);
  for (const CallbackFactory& make : job.callbacks) options.callbacks.push_back(make(place, facts));
  if (job.eval_gauntlet) options.callbacks.push_back(std::make_unique<EvalGauntlet>(*job.eval_gauntlet));
  if (const auto part = job.fatal_write(place))
    options.save.files = new DyingFileSystem(*part);  // lives as long as the process, which is not long
  RETURN_IF_ERROR(AddLoggers(job.logging, place, facts, options));
  // The profiler comes last, so that it sees what the others do. There is always one, for `composer profile`.
  options.callbacks.push_back(std::make_unique<Profiler>(job.profiler.value_or(ProfilerOnRequest())));
  return options;
}

}  // namespace composer
