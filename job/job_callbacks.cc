// SPDX-License-Identifier: Apache-2.0
#include "job/job_callbacks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "fault/fail_at.h"
#include "fault/throttle.h"
#include "job/job_checkpoints.h"
#include "job/named_reader.h"
#include "job/plugin/job_time.h"
#include "trainer/callbacks/memory/free_outputs.h"
#include "trainer/callbacks/memory/memory_snapshot.h"
#include "trainer/callbacks/memory/oom_observer.h"
#include "trainer/callbacks/monitors/activation_monitor.h"
#include "trainer/callbacks/monitors/lr_monitor.h"
#include "trainer/callbacks/monitors/memory_monitor.h"
#include "trainer/callbacks/monitors/nan_monitor.h"
#include "trainer/callbacks/monitors/optimizer_monitor.h"
#include "trainer/callbacks/monitors/runtime_estimator.h"
#include "trainer/callbacks/monitors/speed_monitor.h"
#include "trainer/callbacks/monitors/system_metrics_monitor.h"
#include "trainer/callbacks/output/eval_output_logging.h"
#include "trainer/callbacks/output/export_for_inference.h"
#include "trainer/callbacks/output/image_visualizer.h"
#include "trainer/callbacks/output/log_diffusion_images.h"
#include "trainer/callbacks/output/mlperf.h"
#include "trainer/callbacks/output/sample_recorder.h"
#include "trainer/callbacks/stops/early_stopper.h"
#include "trainer/callbacks/stops/threshold_stopper.h"

namespace composer {
namespace {

constexpr absl::string_view kHowNames[] = {"kill", "abort", "exit", "throw", "hang"};
// The process fails at the end of a batch, in a checkpoint's save, or in the next step's collectives.
constexpr absl::string_view kFailWhen[] = {"batch_end",  "save",           "all_reduce",
                                           "all_gather", "reduce_scatter", "broadcast"};
constexpr IntRange kCount = {.min = 1, .max = 1 << 30};

template <typename Made, typename Options>
CallbackFactory Fixed(const Options& options) {
  return [=](const JobPlace&, const JobFacts&) { return std::make_unique<Made>(options); };
}
template <typename Made>
CallbackFactory ReadPlain(ConfigMap config) {
  return [](const JobPlace&, const JobFacts&) { return std::make_unique<Made>(); };
}

CallbackFactory ReadActivationMonitor(ConfigMap config) {
  ActivationMonitor::Options options;
  options.interval = ReadInterval(config, "interval", "25ba");
  options.ignore_module_types = config.StringList("ignore_module_types", {});
  config.Bool("only_log_wandb", true);  // accepted without effect: without W&B, Composer also logs to all loggers
  return Fixed<ActivationMonitor>(options);
}

Better ReadBetter(ConfigMap& config) {
  const std::string better = config.Choice("comp", {"auto", "less", "lt", "greater", "gt"}, "auto");
  if (better == "auto") return Better::kByName;
  return better == "less" || better == "lt" ? Better::kLess : Better::kGreater;
}

// Accepts `monitor` alone with a full name, or Composer's two keys: monitor and dataloader_label.
std::string ReadMonitor(ConfigMap& config) {
  const std::string monitor = config.String("monitor");
  const std::string label = config.String("dataloader_label", "");
  if (label.empty() && !monitor.empty() && !absl::StrContains(monitor, "/")) {
    config.Reject("monitor", absl::StrCat("say whose: metrics/eval/", monitor, ", or dataloader_label: eval"));
  }
  return MonitoredName(monitor, label);
}

CallbackFactory ReadEarlyStopper(ConfigMap config) {
  EarlyStopper::Options options;
  options.monitor = ReadMonitor(config);
  options.better = ReadBetter(config);
  options.min_delta = config.Double("min_delta", options.min_delta, {.min = 0});
  options.patience = ReadTime(config, "patience", "1ep");
  return Fixed<EarlyStopper>(options);
}

CallbackFactory ReadEvalOutputLogging(ConfigMap config) {
  EvalOutputLogging::Options options;
  options.num_samples = config.Int("num_samples", options.num_samples, {.min = 1, .max = 1 << 20});
  options.log_tokens = config.Bool("log_tokens", options.log_tokens);
  return [=](const JobPlace& place, const JobFacts&) {
    return std::make_unique<EvalOutputLogging>(options, place.communicator);
  };
}

CallbackFactory ReadExportForInference(ConfigMap config) {
  const std::string folder = config.String("save_path", "");
  const std::string name = config.Choice("save_format", {"safetensors", "torchscript", "onnx"}, "safetensors");
  const ExportFormat format = name == "torchscript" ? ExportFormat::kTorchScript
                              : name == "onnx"      ? ExportFormat::kOnnx
                                                    : ExportFormat::kSafetensors;
  return [=](const JobPlace&, const JobFacts& facts) {
    return std::make_unique<ExportForInference>(
        ExportForInference::Options{folder.empty() ? "" : AbsolutePath(folder), facts.model_json, format});
  };
}

CallbackFactory ReadFailAt(ConfigMap config) {
  FailAt::Options options;
  options.rank = static_cast<int>(config.Int("rank", options.rank, {.min = 0}));
  options.batch = config.Int("batch", options.batch, {.min = 0});
  const std::string how = config.Choice("how", kHowNames, "kill");
  for (size_t i = 0; i < std::size(kHowNames); ++i) {
    if (how == kHowNames[i]) options.how = static_cast<FailAt::How>(i);
  }
  const bool every_generation = config.Bool("every_generation", false);
  const std::string when = config.Choice("when", kFailWhen, "batch_end");
  options.armed = when != "save";
  if (when != "save" && when != "batch_end") {
    options.collective = when;
    options.event = Event::kBeforeTrainBatch;
  }
  options.nth = static_cast<int>(config.Int("nth", 1, {.min = 1, .max = 1 << 20}));
  return [=](const JobPlace& place, const JobFacts&) {
    FailAt::Options own = options;
    own.armed = options.armed && (every_generation || place.generation == 1);
    return std::make_unique<FailAt>(own);
  };
}

CallbackFactory ReadImageVisualizer(ConfigMap config) {
  ImageVisualizer::Options options;
  options.interval = ReadInterval(config, "interval", "100ba");
  options.mode = config.Choice("mode", {"input", "segmentation"}, "input") == "input"
                     ? ImageVisualizer::Mode::kInput
                     : ImageVisualizer::Mode::kSegmentation;
  options.num_images = config.Int("num_images", options.num_images, kCount);
  options.channels_last = config.Bool("channels_last", false);
  // Composer's numbers are places in a tuple.
  const auto key = [&config](const char* name, const std::string& fallback) {
    const std::string text = config.String(name, fallback);
    return text == "0" ? "inputs" : text == "1" ? "targets" : text;
  };
  options.input_key = key("input_key", options.input_key);
  options.target_key = key("target_key", options.target_key);
  return Fixed<ImageVisualizer>(options);
}

CallbackFactory ReadLogDiffusionImages(ConfigMap config) {
  LogDiffusionImages::Options options;
  options.class_labels = config.IntList("class_labels", {}, {.min = 0, .max = 65535});
  const std::string conditions = config.String("conditions", "");
  if (!conditions.empty()) options.conditions = AbsolutePath(conditions);
  options.prompts = config.StringList("prompts", {});
  const std::string negative = config.String("negative_prompt", "");
  if (config.Has("negative_prompt")) options.negative_prompt = negative;
  if (options.prompts.empty() && options.negative_prompt) config.Reject("negative_prompt", "needs prompts");
  if (!options.prompts.empty() && !conditions.empty())
    config.Reject("conditions", "cannot be combined with prompts: both are the texts");
  options.num_images = config.Int("num_images", options.num_images, {.min = 1, .max = 4096});
  options.sampling.sampler =
      config.Choice("sampler", {"ddim", "ddpm"}, "ddim") == "ddim" ? DiffusionSampler::kDdim : DiffusionSampler::kDdpm;
  options.sampling.num_inference_steps =
      config.Int("num_inference_steps", options.sampling.num_inference_steps, {.min = 1, .max = 1000000});
  options.sampling.eta = config.Double("eta", options.sampling.eta, {.min = 0, .max = 1});
  options.sampling.guidance_scale = config.Double("guidance_scale", options.sampling.guidance_scale, {.min = 0});
  options.sampling.seed = static_cast<uint64_t>(config.Int("seed", 0, {.min = 0}));
  return Fixed<LogDiffusionImages>(options);
}

CallbackFactory ReadMemoryMonitor(ConfigMap config) {
  MemoryMonitor::Options options;
  options.interval = config.Int("interval", options.interval, kCount);
  options.dist_aggregate_batch_interval = config.Int("dist_aggregate_batch_interval", 0, kCount);
  ConfigMap keys = config.Map("memory_keys");
  const std::vector<std::string> allowed = DeviceMemoryKeys();
  for (const std::string& key : keys.Keys()) {
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
      keys.Reject(key, absl::StrCat("is not one of ", absl::StrJoin(allowed, ", "), DidYouMean(key, allowed)));
    } else {
      options.memory_keys.emplace_back(key, keys.String(key));
    }
  }
  return [=](const JobPlace& place, const JobFacts&) {
    return std::make_unique<MemoryMonitor>(options, place.communicator);
  };
}

CallbackFactory ReadMemorySnapshot(ConfigMap config) {
  MemorySnapshot::Options options;
  options.skip_batches = config.Int("skip_batches", options.skip_batches, {.min = 0});
  options.interval = ReadInterval(config, "interval", "3ba");
  options.max_entries = config.Int("max_entries", options.max_entries, {.min = 1, .max = 100'000'000});
  options.folder = config.String("folder", "");
  options.filename = config.String("filename", options.filename);
  return Fixed<MemorySnapshot>(options);
}

Hyperparameters ReadSettings(ConfigMap config) {
  Hyperparameters settings;
  for (const std::string& key : config.Keys()) settings.emplace_back(key, config.String(key, ""));
  return settings;
}

CallbackFactory ReadMLPerf(ConfigMap config) {
  MLPerfCallback::Options options;
  options.root_folder = config.String("root_folder", "");
  options.index = config.Int("index", options.index, {.min = 0});
  options.benchmark = config.String("benchmark", options.benchmark);
  options.target = config.Double("target", options.target);
  options.metric_name = config.String("metric_name", options.metric_name);
  options.metric_label = config.String("metric_label", options.metric_label);
  options.better = ReadBetter(config);
  options.division = config.Choice("division", {"open", "closed"}, options.division);
  options.submitter = config.String("submitter", options.submitter);
  options.system_name = config.String("system_name", "");
  options.status = config.Choice("status", {"onprem", "cloud", "preview"}, options.status);
  options.cache_clear_cmd = config.String("cache_clear_cmd", "");
  options.exit_at_target = config.Bool("exit_at_target", false);
  options.host_processors_per_node = config.String("host_processors_per_node", "");
  options.hyperparameters = ReadSettings(config.Map("hyperparameters"));
  return [=](const JobPlace& place, const JobFacts& facts) {
    MLPerfCallback::Options own = options;
    own.global_batch_size = facts.global_batch_size;
    own.train_samples = facts.train_samples;
    own.eval_samples = facts.eval_samples;
    own.local_rank = place.local_rank;
    own.local_world_size = place.local_world_size;
    own.may_replace = place.generation > 1;
    return std::make_unique<MLPerfCallback>(own);
  };
}

CallbackFactory ReadOOMObserver(ConfigMap config) {
  OOMObserver::Options options;
  options.report.folder = config.String("folder", "");
  options.report.filename = config.String("filename", options.report.filename);
  options.record_history = config.Bool("record_history", false);
  options.max_entries = config.Int("max_entries", options.max_entries, {.min = 1, .max = 100'000'000});
  return [=](const JobPlace& place, const JobFacts&) {
    OOMObserver::Options own = options;
    own.report.visible_devices = place.visible_gpus;
    return std::make_unique<OOMObserver>(own);
  };
}

CallbackFactory ReadOptimizerMonitor(ConfigMap config) {
  OptimizerMonitor::Options options;
  options.interval = config.Int("batch_log_interval", options.interval, kCount);
  options.log_optimizer_metrics = config.Bool("log_optimizer_metrics", true);
  return Fixed<OptimizerMonitor>(options);
}

absl::Duration ReadTimeUnit(ConfigMap& config) {
  static constexpr std::pair<absl::string_view, int> kUnits[] = {
      {"seconds", 1}, {"minutes", 60}, {"hours", 3600}, {"days", 86400}};
  const std::string unit = config.Choice("time_unit", {"seconds", "minutes", "hours", "days"}, "hours");
  for (const auto& [name, seconds] : kUnits) {
    if (unit == name) return absl::Seconds(seconds);
  }
  return absl::Hours(1);
}

CallbackFactory ReadRuntimeEstimator(ConfigMap config) {
  RuntimeEstimator::Options options;
  options.time_unit = ReadTimeUnit(config);
  options.skip_batches = static_cast<int>(config.Int("skip_batches", options.skip_batches, {.min = 0, .max = 1 << 20}));
  return Fixed<RuntimeEstimator>(options);
}

CallbackFactory ReadSpeedMonitor(ConfigMap config) {
  SpeedMonitor::Options options;
  options.window_size = static_cast<int>(config.Int("window_size", options.window_size, {.min = 1, .max = 1 << 20}));
  options.gpu_flops_available = config.Double("gpu_flops_available", 0, {.min = 0});
  options.time_unit = ReadTimeUnit(config);
  return [=](const JobPlace& place, const JobFacts&) {
    SpeedMonitor::Options own = options;
    own.visible_devices = place.visible_gpus;
    return std::make_unique<SpeedMonitor>(own);
  };
}

CallbackFactory ReadSystemMetricsMonitor(ConfigMap config) {
  SystemMetricsMonitor::Options options;
  options.log_all_data = config.Bool("log_all_data", false);
  options.interval = absl::Seconds(config.Double("seconds", 1, {.min = 0, .max = 86400}));
  options.dist_aggregate_batch_interval = config.Int("dist_aggregate_batch_interval", 0, kCount);
  return [options](const JobPlace& place, const JobFacts&) mutable {
    options.gpu = place.local_rank;
    options.visible_devices = place.visible_gpus;
    return std::make_unique<SystemMetricsMonitor>(options, RealClock::Get(), place.communicator);
  };
}

CallbackFactory ReadThresholdStopper(ConfigMap config) {
  ThresholdStopper::Options options;
  options.monitor = ReadMonitor(config);
  options.threshold = config.RequiredDouble("threshold");
  options.better = ReadBetter(config);
  options.stop_on_batch = config.Bool("stop_on_batch", false);
  return Fixed<ThresholdStopper>(options);
}

CallbackFactory ReadThrottle(ConfigMap config) {
  Throttle::Options options;
  options.duration = absl::Seconds(config.Double("seconds", 0, {.min = 0, .max = 3600}));
  return Fixed<Throttle>(options);
}

// Serves TrainerOptions::checkpoint_savers and generate: the trainer makes these, since only it has what they need
// (job_checkpoints.h, job_generate.h).
CallbackFactory ReadElsewhere(ConfigMap) { return nullptr; }

struct CallbackRow {
  const char* name;
  CallbackFactory (*read)(ConfigMap config);
};
constexpr CallbackRow kCallbacks[] = {
    {"activation_monitor", ReadActivationMonitor},
    {"checkpoint_saver", ReadElsewhere},
    {"early_stopper", ReadEarlyStopper},
    {"eval_output_logging", ReadEvalOutputLogging},
    {"export_for_inference", ReadExportForInference},
    {"fail_at", ReadFailAt},
    {"free_outputs", ReadPlain<FreeOutputs>},
    {"generate", ReadElsewhere},
    {"image_visualizer", ReadImageVisualizer},
    {"load_checkpoint", ReadLoadCheckpoint},
    {"log_diffusion_images", ReadLogDiffusionImages},
    {"lr_monitor", ReadPlain<LRMonitor>},
    {"memory_monitor", ReadMemoryMonitor},
    {"memory_snapshot", ReadMemorySnapshot},
    {"mlperf", ReadMLPerf},
    {"nan_monitor", ReadPlain<NaNMonitor>},
    {"oom_observer", ReadOOMObserver},
    {"optimizer_monitor", ReadOptimizerMonitor},
    {"runtime_estimator", ReadRuntimeEstimator},
    {"sample_recorder", ReadPlain<SampleRecorder>},
    {"speed_monitor", ReadSpeedMonitor},
    {"system_metrics_monitor", ReadSystemMetricsMonitor},
    {"threshold_stopper", ReadThresholdStopper},
    {"throttle", ReadThrottle},
};

}  // namespace

std::vector<std::string> CallbackNames() { return NamesOf(kCallbacks); }

std::vector<CallbackFactory> ReadCallbacks(ConfigMap root, const PluginTables& plugins) {
  std::vector<CallbackFactory> factories;
  for (ConfigMap::Named& entry : root.NamedMaps("callbacks")) {
    const auto* row = std::find_if(std::begin(kCallbacks), std::end(kCallbacks),
                                   [&](const CallbackRow& r) { return entry.name == r.name; });
    if (row != std::end(kCallbacks)) {
      if (CallbackFactory factory = row->read(entry.map)) factories.push_back(std::move(factory));
    } else if (const auto plugin = plugins.callbacks.find(entry.name); plugin != plugins.callbacks.end()) {
      const PluginCallbackFactory make = ReadWithPlugin(entry.name, plugin->second, entry.map);
      factories.push_back([make](const JobPlace&, const JobFacts&) { return make(); });
    } else {
      entry.map.Reject("", UnknownNameOf(entry.name, CallbackNames(), plugins.callbacks));
      entry.map.IgnoreRest();
    }
  }
  return factories;
}

FatalWrite ReadFatalWrite(ConfigMap root) {
  for (ConfigMap::Named& entry : root.NamedMaps("callbacks")) {
    ConfigMap& config = entry.map;
    if (entry.name != "fail_at" || config.Choice("when", kFailWhen, "batch_end") != "save") continue;
    const int64_t rank = config.Int("rank", 0), batch = config.Int("batch", 1);
    return [=](const JobPlace& place) -> std::optional<std::string> {
      if (place.rank != rank || place.generation != 1) return std::nullopt;
      return absl::StrCat("-ba", batch, "/");
    };
  }
  return [](const JobPlace&) { return std::nullopt; };
}

}  // namespace composer
