// SPDX-License-Identifier: Apache-2.0
#include "job/job.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "config/effective_config.h"
#include "config/job_check.h"
#include "config/job_identity.h"
#include "config/plugin_files.h"
#include "fault/dying_file_system.h"
#include "job/algorithms/composer_quirks.h"
#include "job/compat/compile_config.h"
#include "job/config_values.h"
#include "job/data/icl_rows.h"
#include "job/job_checkpoints.h"
#include "job/job_ddp.h"
#include "job/job_generate.h"
#include "job/job_metrics.h"
#include "job/job_parallelism.h"
#include "job/job_resume.h"
#include "job/job_tokenizer.h"
#include "job/plugin/job_time.h"
#include "job/plugin/plugin_loader.h"
#include "trainer/core/random.h"

namespace composer {
namespace {

constexpr int64_t kMaxSamples = int64_t{1} << 36;

// Reads torch's DataLoader arguments.
PrefetchOptions ReadPrefetch(ConfigMap& loader, const Job& job) {
  PrefetchOptions options;
  options.num_workers = static_cast<int>(loader.Int("num_workers", options.num_workers, {.min = 0, .max = 256}));
  options.prefetch_factor =
      static_cast<int>(loader.Int("prefetch_factor", options.prefetch_factor, {.min = 1, .max = 1024}));
  options.timeout = absl::Seconds(loader.Double("timeout", 0, {.min = 0}));
  options.pin_memory = loader.Bool("pin_memory", job.gpu);
  if (options.timeout > absl::ZeroDuration() && options.num_workers == 0)
    loader.Reject("timeout", "needs num_workers of at least 1: a thread that can be waited for");
  if (options.pin_memory && !job.gpu) loader.Reject("pin_memory", "needs device: gpu");
  return options;
}

void ReadTrainData(ConfigMap root, bool trains, Job& job) {
  TrainDataOptions& train = job.options.train;
  ConfigMap loader = root.Map("train_dataloader");
  if (trains && !loader.exists()) root.Reject("train_dataloader", "required");
  train.label = root.String("train_dataloader_label", "train");
  train.global_train_batch_size = root.Int("global_train_batch_size", 0, {.min = 1});
  train.device_train_batch_size = root.Int("device_train_batch_size", 0, {.min = 1});
  train.train_subset_num_batches = root.Int("train_subset_num_batches", -1, {.min = -1});
  if (!loader.exists()) return;
  train.device_train_batch_size = loader.Int("batch_size", train.device_train_batch_size, {.min = 1});
  train.shuffle = loader.Bool("shuffle", true);
  train.drop_last = loader.Bool("drop_last", false);
  train.prefetch = ReadPrefetch(loader, job);
  train.predownload = loader.Int("predownload", 0, {.min = 0});
  train.make_order = ReadOrder(loader, job.plugins->tables());
  job.train_dataset = ReadData(loader, train.shuffle, job.plugins->tables());
  if (trains && train.global_train_batch_size == 0 && train.device_train_batch_size == 0) {
    root.Reject("global_train_batch_size",
                "required: the samples of one step over all ranks (or device_train_batch_size, those of one rank)");
  }
}

int64_t ReadMicrobatchSize(ConfigMap& map, absl::string_view key) {
  return map.Is(key, "auto") ? kAutoMicrobatch : map.Int(key, 0, {.min = 1, .max = kMaxSamples});
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
    evaluation.options.metric_names = loader.StringList("metric_names", {});
    evaluation.options.device_eval_microbatch_size = ReadMicrobatchSize(loader, "device_eval_microbatch_size");
    evaluation.options.prefetch = ReadPrefetch(loader, job);
    evaluation.dataset = ReadData(loader, /*shuffle=*/false, job.plugins->tables());
    job.evaluations.push_back(std::move(evaluation));
  }
  std::vector<IclEvaluation> tasks = ReadIclTasks(root);
  job.eval_gauntlet = ReadEvalGauntlet(root, tasks);
  for (IclEvaluation& task : tasks) {
    task.options.eval_interval = interval;
    job.evaluations.push_back({std::move(task.options), std::move(task.open), std::move(task.key)});
  }
}

// Other models would let documents of a row see each other without a word.
void CheckSequenceIds(ConfigMap root, const PluginTables& plugins, const std::string& model_json) {
  ConfigMap model = root.Map("model");
  std::vector<ConfigMap> loaders = root.MapList("eval_dataloader");
  loaders.push_back(root.Map("train_dataloader"));
  for (ConfigMap& loader : loaders) {
    ConfigMap pack = loader.Map("pack");
    if (!model.exists() || !pack.exists() || !pack.Bool("attn_uses_sequence_id", false)) continue;
    if (SeesSequences(model, plugins, model_json)) return;
    pack.Reject("attn_uses_sequence_id",
                "needs a decoder whose attention can be kept within documents: gpt, or hf of the type gpt2, llama, "
                "mistral, mixtral, mpt, qwen2 or qwen3");
  }
}

uint64_t ReadSeed(ConfigMap& root) {
  return root.Is("seed", "random") ? kSeedToSettle : static_cast<uint64_t>(root.Int("seed", 0, {.min = 0}));
}

Precision ReadPrecision(ConfigMap& root, bool gpu) {
  // On a GPU, halving the bits is the point; Composer's own default there, amp_fp16, needs loss scaling.
  const std::string name =
      root.Choice("precision", {"fp32", "amp_bf16", "amp_fp16", "amp_fp8"}, gpu ? "amp_bf16" : "fp32");
  if (name == "fp32") return Precision::kFp32;
  return name == "amp_bf16" ? Precision::kAmpBf16 : name == "amp_fp16" ? Precision::kAmpFp16 : Precision::kAmpFp8;
}

Fp8Recipe ReadPrecisionConfig(ConfigMap& root, Precision precision) {
  Fp8Recipe recipe;
  ConfigMap map = root.Map("precision_config");
  if (!map.exists()) return recipe;
  if (precision != Precision::kAmpFp8) root.Reject("precision_config", "is the recipe of `precision: amp_fp8`");
  const bool e4m3 = map.Choice("fp8_format", {"HYBRID", "E4M3"}, "HYBRID") == "E4M3";
  recipe.fp8_format = e4m3 ? Fp8Format::kE4m3 : Fp8Format::kHybrid;
  const bool current = map.Choice("scaling", {"delayed", "current"}, "delayed") == "current";
  recipe.scaling = current ? Fp8Scales::kCurrent : Fp8Scales::kDelayed;
  for (const char* key : {"amax_history_len", "amax_compute_algo"}) {
    if (current && map.Has(key)) map.Reject(key, "needs scaling: delayed");
  }
  recipe.amax_history_len = map.Int("amax_history_len", recipe.amax_history_len, {.min = 1, .max = 1 << 16});
  const bool most_recent = map.Choice("amax_compute_algo", {"max", "most_recent"}, "max") == "most_recent";
  recipe.amax_compute_algo = most_recent ? Fp8AmaxAlgo::kMostRecent : Fp8AmaxAlgo::kMax;
  recipe.margin = map.Int("margin", recipe.margin, {.min = 0, .max = 16});
  recipe.exclude.texts = map.StringList("exclude", {});
  return recipe;
}

OnNan ReadOnNan(ConfigMap& root, bool composer_compat) {
  const std::string name = root.Choice("on_nan", {"stop", "skip", "continue"}, composer_compat ? "continue" : "stop");
  return name == "stop" ? OnNan::kStop : name == "skip" ? OnNan::kSkip : OnNan::kContinue;
}

// Returns 0 when not elastic.
int ReadVirtualShards(ConfigMap& root) {
  const bool elastic = root.Choice("determinism", {"none", "elastic"}, "none") == "elastic";
  const int64_t shards = root.Int("virtual_shards", kDefaultVirtualShards, {.min = 1, .max = 4096});
  if (!elastic && shards != kDefaultVirtualShards) root.Reject("virtual_shards", "needs determinism: elastic");
  return elastic ? static_cast<int>(shards) : 0;
}

void ReadCollectives(ConfigMap& root, Job& job) {
  job.dist_timeout_seconds = root.Double("dist_timeout", 300, {.min = 1});
  job.debug_collectives = root.Bool("debug_collectives", false);
  const std::string means = root.Choice("collectives", {"auto", "gloo", "shared_memory"}, "auto");
  job.collectives = means == "auto"   ? HostCollectives::kAuto
                    : means == "gloo" ? HostCollectives::kGloo
                                      : HostCollectives::kSharedMemory;
  if (job.gpu && means != "auto") root.Reject("collectives", "needs device: cpu; GPUs use NCCL");
}

void ReadTraining(ConfigMap root, bool trains, Job& job) {
  TrainerOptions& options = job.options;
  if (trains && !root.Has("max_duration")) root.Reject("max_duration", "required: \"10ep\", \"500ba\", \"1h30m\"");
  options.max_duration = ReadTime(root, "max_duration", "1ep");
  if (root.Has("iteration_length")) options.iteration_length = ReadTime(root, "iteration_length", "1ep");
  options.seed = ReadSeed(root);
  options.deterministic_mode = root.Bool("deterministic_mode", false);
  options.virtual_shards = ReadVirtualShards(root);
  options.device_train_microbatch_size = ReadMicrobatchSize(root, "device_train_microbatch_size");
  options.accumulate_train_batch_on_tokens = root.Bool("accumulate_train_batch_on_tokens", false);
  options.eval_first = root.Bool("eval_first", false);
  options.train_metrics_interval = root.Int("train_metrics_interval", 1, {.min = 0});
  options.scale_schedule_ratio = root.Double("scale_schedule_ratio", 1, {.min = 1e-6});
  options.composer_compat = root.Bool("composer_compat", false);
  options.on_nan = ReadOnNan(root, options.composer_compat);
  if (options.composer_compat) options.engine.algorithm_passes.push_back(ComposersOrderAfter());
  job.gpu = root.Choice("device", {"cpu", "gpu"}, "cpu") == "gpu";
  job.allow_tf32 = root.Bool("allow_tf32", true);
  if (!job.allow_tf32 && !job.gpu) root.Reject("allow_tf32", "false needs device: gpu; a CPU has no TF32");
  job.own_kernels = root.Choice("kernels", {"auto", "off"}, "auto") == "auto";
  job.cuda_graphs = root.Bool("cuda_graphs", false);
  if (job.cuda_graphs && !job.gpu) root.Reject("cuda_graphs", "true needs device: gpu; a CPU has no graphs");
  options.precision = ReadPrecision(root, job.gpu);
  options.precision_config = ReadPrecisionConfig(root, options.precision);
  options.keep_in_fp32.texts = root.StringList("keep_in_fp32", {});
  ReadCollectives(root, job);
  if (job.cuda_graphs && job.debug_collectives)
    root.Reject("debug_collectives", "does not go with cuda_graphs, whose collectives start without the host");
  ReadCompileConfig(root);
  options.fsdp = ReadParallelism(root, options.precision);
}

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
  ConfigMap model = root.Map("model");
  job.options.tensor_parallel_degree = ReadTensorParallelDegree(root);
  const std::string model_json = ConfigJson(document.Find("model"));
  job.tokenizer = ReadTokenizer(root, plugins);
  if (model.exists()) job.model = ReadModel(model, plugins, model_json, job.tokenizer);
  job.options.layer_plan = ReadLayerPlan(root);
  // A mistake in the model is reported once.
  if (model.exists() && job.options.tensor_parallel_degree > 1 && job.options.layer_plan.empty() &&
      reader.status().ok()) {
    if (model.String("name") == kHfModel) {
      job.options.layer_plan = ReadHfLayerPlan(model, model_json);
    } else {
      job.options.split_model = ReadModelSplitter(model);
    }
  }
  if (!model.exists()) root.Reject("model", "required");
  ReadTraining(root, source.trains, job);
  ReadTrainData(root, source.trains, job);
  ReadEvaluation(root, job);
  CheckSequenceIds(root, plugins, model_json);
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
  job.model_json = model_json;
  job.logging.config = FlatConfig(document);
  return job;
}

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

}  // namespace

namespace {

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
