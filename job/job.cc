// SPDX-License-Identifier: Apache-2.0
#include "job/job.h"

#include "base/file.h"
#include "base/status_macros.h"
#include "config/effective_config.h"
#include "config/job_check.h"
#include "config/job_identity.h"
#include "config/plugin_files.h"
#include "job/config_values.h"
#include "job/job_checkpoints.h"
#include "job/job_generate.h"
#include "job/job_loaders.h"
#include "job/job_metrics.h"
#include "job/job_tokenizer.h"
#include "job/job_training.h"
#include "job/parallel/job_ddp.h"
#include "job/parallel/job_parallelism.h"
#include "job/plugin/job_time.h"
#include "job/plugin/plugin_loader.h"

namespace composer {
namespace {

PluginRegistry::Names BuiltInNames() {
  return {{"model", ModelNames()},
          {"dataset", DatasetNames()},
          {"optimizer", OptimizerNames()},
          {"scheduler", SchedulerNames()},
          {"algorithm", AlgorithmNames()},
          {"callback", CallbackNames()},
          {"logger", LoggerNames()},
          {"metric", MetricReaderNames()},
          {"tokenizer", TokenizerNames()},
          {"transform", TransformNames()},
          {"collator", CollatorNames()},
          {"order", OrderNames()},
          {"store", {"file", "s3", "gs", "oci"}}};
}

// Must run first: names in the rest of the file may belong to plugins.
ConfigNode EffectiveOf(const JobIdentity& identity) {
  ConfigNode effective = EffectiveConfig(identity.document, identity.plugins.schema);
  if (effective.Find("run_name") != nullptr) return effective;
  ConfigNode name;
  name.kind = ConfigNode::Kind::kScalar;
  name.key = "run_name";
  name.scalar = identity.run_name;
  name.mark = name.key_mark = SourceMark{"the file's name"};
  effective.children.insert(effective.children.begin(), std::move(name));
  return effective;
}

void LoadPlugins(ConfigMap& root, const std::string& yaml_path, PluginRegistry& registry) {
  for (const std::string& path : ReadPluginFiles(root, yaml_path)) {
    if (const absl::Status status = LoadPlugin(path, registry); !status.ok()) root.Reject("plugins", status.message());
  }
}

// Reads the model and how tensor parallelism splits it.
void ReadModelAndSplit(ConfigMap& root, const ConfigReader& reader, Job& job) {
  ConfigMap model = root.Map("model");
  TrainerOptions& options = job.options;
  options.tensor_parallel_degree = ReadTensorParallelDegree(root);
  if (model.exists()) job.model = ReadModel(model, job.plugins->tables(), job.model_json, job.tokenizer);
  options.layer_plan = ReadLayerPlan(root);
  if (!model.exists()) return root.Reject("model", "required");
  // A mistake in the model is reported once.
  if (options.tensor_parallel_degree <= 1 || !options.layer_plan.empty() || !reader.status().ok()) return;
  if (model.String("name") == kHfModel) {
    options.layer_plan = ReadHfLayerPlan(model, job.model_json);
  } else {
    options.split_model = ReadModelSplitter(model);
  }
}

}  // namespace

absl::StatusOr<Job> ReadJob(const JobSource& source, const Environment& env) {
  ASSIGN_OR_RETURN(const JobIdentity identity, ReadJobIdentity(source.yaml_path, source.overrides, env));
  const ConfigNode& document = identity.document;
  if (source.asks == nullptr)
    RETURN_IF_ERROR(
        CheckJob(document, {identity.plugins.schema, identity.plugins.open_names, source.world_size, source.trains}));
  Job job;
  job.run_name = identity.run_name;
  job.run_folder = source.run_folder.empty() ? identity.run_folder : source.run_folder;
  ConfigReader reader(document);
  reader.Record(source.asks);
  ConfigMap root = reader.root();
  for (const char* key : {"run_name", "run_folder", "max_restarts", "startup_limits", "nproc"})
    reader.MakeKnown(document, key);
  job.options.run_name = job.run_name;
  job.options.run_folder = job.run_folder;
  job.plugins = std::make_shared<PluginRegistry>(BuiltInNames());
  LoadPlugins(root, source.yaml_path, *job.plugins);
  RETURN_IF_ERROR(reader.status());
  const PluginTables& plugins = job.plugins->tables();
  job.model_json = ConfigJson(document.Find("model"));
  job.tokenizer = ReadTokenizer(root, plugins);
  ReadModelAndSplit(root, reader, job);
  ReadTraining(root, source.trains, job);
  ReadTrainData(root, source.trains, job);
  ReadEvaluation(root, job);
  CheckSequenceIds(root, plugins, job.model_json);
  job.options.ddp = ReadDdp(root, job.options.fsdp);
  job.options.activations = ReadActivations(root);
  job.options.save = ReadSaving(root, job.run_name, job.run_folder);
  if (root.Has("save_memory_interval"))
    job.options.save_memory_interval = ReadTime(root, "save_memory_interval", "10ba");
  job.options.load = ReadLoading(root);
  job.options.checkpoint_savers = ReadCheckpointSavers(root, job.run_name);
  job.options.generate = ReadGenerate(root, job.options.seed);
  job.optimizer = ReadOptimizer(root, plugins);
  job.schedulers = ReadSchedulers(root, plugins, job.options.composer_compat);
  job.algorithms = ReadAlgorithms(root, document, plugins, job.options.composer_compat);
  job.options.layer_policies = ReadLayerPolicies(root, plugins);
  job.callbacks = ReadCallbacks(root, plugins);
  job.fatal_write = ReadFatalWrite(root);
  job.logging = ReadLogging(root, plugins);
  job.profiler = ReadProfiler(root);
  job.resume_changes = root.StringList("resume_changes", {});
  RETURN_IF_ERROR(reader.Finish());
  job.effective = EffectiveOf(identity);
  job.logging.config = FlatConfig(document);
  return job;
}

}  // namespace composer
