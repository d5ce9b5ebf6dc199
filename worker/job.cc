// SPDX-License-Identifier: Apache-2.0
#include "worker/job.h"

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "config/document.h"
#include "config/job_identity.h"
#include "config/yaml.h"
#include "storage/dying_file_system.h"
#include "trainer/core/random.h"
#include "worker/config_values.h"
#include "worker/job_time.h"

namespace composer {
namespace {

void ReadTrainData(ConfigMap root, Job& job) {
  TrainDataOptions& train = job.options.train;
  ConfigMap loader = root.Map("train_dataloader");
  if (!loader.exists()) root.Reject("train_dataloader", "required");
  train.label = root.String("train_dataloader_label", "train");
  train.global_train_batch_size = root.Int("global_train_batch_size", 0, {.min = 1});
  train.device_train_batch_size = root.Int("device_train_batch_size", 0, {.min = 1});
  train.train_subset_num_batches = root.Int("train_subset_num_batches", -1, {.min = -1});
  if (!loader.exists()) return;
  train.device_train_batch_size = loader.Int("batch_size", train.device_train_batch_size, {.min = 1});
  train.shuffle = loader.Bool("shuffle", true);
  train.drop_last = loader.Bool("drop_last", false);
  job.train_dataset = ReadDataset(loader);
  if (train.global_train_batch_size == 0 && train.device_train_batch_size == 0) {
    root.Reject("global_train_batch_size",
                "required: the samples of one step over all ranks (or device_train_batch_size, those of one rank)");
  }
}

void ReadEvaluation(ConfigMap root, Job& job) {
  const Time interval = ReadTime(root, "eval_interval", "1ep");
  const int64_t subset = root.Int("eval_subset_num_batches", -1, {.min = -1});
  for (ConfigMap loader : root.MapList("eval_dataloader")) {
    Job::Evaluation evaluation;
    evaluation.options.label = loader.String("label", "eval");
    evaluation.options.batch_size = loader.Int("batch_size", evaluation.options.batch_size, {.min = 1});
    evaluation.options.subset_num_batches = loader.Int("subset_num_batches", subset, {.min = -1});
    evaluation.options.eval_interval =
        loader.Has("eval_interval") ? ReadTime(loader, "eval_interval", "1ep") : interval;
    evaluation.dataset = ReadDataset(loader);
    job.evaluations.push_back(std::move(evaluation));
  }
}

void ReadSaving(ConfigMap root, Job& job) {
  SaveOptions& save = job.options.save;
  save.save_folder = root.String("save_folder", JoinPath(job.run_folder, "checkpoints"));
  save.save_interval = ReadTime(root, "save_interval", "1ep");
  save.save_num_checkpoints_to_keep =
      static_cast<int>(root.Int("save_num_checkpoints_to_keep", -1, {.min = -1, .max = 1 << 20}));
  if (save.save_num_checkpoints_to_keep == 0)
    root.Reject("save_num_checkpoints_to_keep", "must be at least 1, or -1 to keep all");
  save.autoresume = root.Bool("autoresume", true);
}

void ReadTraining(ConfigMap root, Job& job) {
  TrainerOptions& options = job.options;
  if (!root.Has("max_duration")) root.Reject("max_duration", "required: \"10ep\", \"500ba\", \"1h30m\"");
  options.max_duration = ReadTime(root, "max_duration", "1ep");
  options.seed = static_cast<uint64_t>(root.Int("seed", 0, {.min = 0}));
  options.device_train_microbatch_size = root.Int("device_train_microbatch_size", 0, {.min = 1});
  options.train_metrics_interval = root.Int("train_metrics_interval", 1, {.min = 0});
  options.scale_schedule_ratio = root.Double("scale_schedule_ratio", 1, {.min = 1e-6});
  root.Choice("device", {"cpu"}, "cpu");
  options.precision =
      root.Choice("precision", {"fp32", "amp_bf16"}, "fp32") == "fp32" ? Precision::kFp32 : Precision::kAmpBf16;
  job.dist_timeout_seconds = root.Double("dist_timeout", 300, {.min = 1});
}

}  // namespace

absl::StatusOr<Job> ReadJob(const JobSource& source, const Environment& env) {
  ASSIGN_OR_RETURN(const JobIdentity identity, ReadJobIdentity(source.yaml_path, source.overrides, env));
  ASSIGN_OR_RETURN(const ConfigNode document, LoadConfig({source.yaml_path}, source.overrides, env));
  Job job;
  job.run_name = identity.run_name;
  job.run_folder = source.run_folder.empty() ? identity.run_folder : source.run_folder;
  ConfigReader reader(document);
  ConfigMap root = reader.root();
  for (const char* key : {"run_name", "run_folder", "max_restarts", "nproc"}) reader.MakeKnown(document, key);
  job.options.run_name = job.run_name;
  job.options.run_folder = job.run_folder;
  ConfigMap model = root.Map("model");
  if (model.exists()) job.model = ReadModel(model);
  if (!model.exists()) root.Reject("model", "required");
  ReadTraining(root, job);
  ReadTrainData(root, job);
  ReadEvaluation(root, job);
  ReadSaving(root, job);
  job.optimizer = ReadOptimizer(root);
  job.schedulers = ReadSchedulers(root);
  job.callbacks = ReadCallbacks(root);
  job.fatal_write = ReadFatalWrite(root);
  job.logging = ReadLogging(root);
  RETURN_IF_ERROR(reader.Finish());
  job.resolved_yaml = ToYaml(document);
  job.model_json = ConfigJson(document.Find("model"));
  job.logging.config = FlatConfig(document);
  return job;
}

namespace {

JobFacts FactsOf(const Job& job, const TrainerOptions& options, int world_size) {
  JobFacts facts;
  facts.run_name = options.run_name;
  facts.run_folder = options.run_folder;
  facts.model_json = job.model_json;
  const TrainDataOptions& train = options.train;
  facts.global_batch_size =
      train.global_train_batch_size > 0 ? train.global_train_batch_size : train.device_train_batch_size * world_size;
  facts.train_samples = train.dataset->size();
  if (!options.evaluators.empty()) facts.eval_samples = options.evaluators[0].dataset->size();
  return facts;
}

}  // namespace

absl::StatusOr<TrainerOptions> BuildTrainerOptions(Job job, const JobPlace& place) {
  TrainerOptions options = std::move(job.options);
  SeedForConstruction(options.seed);
  options.model = job.model();
  ASSIGN_OR_RETURN(options.train.dataset, job.train_dataset());
  for (Job::Evaluation& evaluation : job.evaluations) {
    ASSIGN_OR_RETURN(evaluation.options.dataset, evaluation.dataset());
    options.evaluators.push_back(evaluation.options);
  }
  options.make_optimizer = job.optimizer;
  for (const SchedulerFactory& make : job.schedulers) options.schedulers.push_back(make());
  const JobFacts facts = FactsOf(job, options, place.world_size);
  for (const CallbackFactory& make : job.callbacks) options.callbacks.push_back(make(place, facts));
  if (const auto part = job.fatal_write(place))
    options.save.files = new DyingFileSystem(*part);  // lives as long as the process, which is not long
  RETURN_IF_ERROR(AddLoggers(job.logging, place, facts, options));
  return options;
}

}  // namespace composer
