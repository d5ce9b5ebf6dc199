// SPDX-License-Identifier: Apache-2.0
#include "job/job_loggers.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/name_template.h"
#include "base/status_macros.h"
#include "job/loggers/git_commit.h"
#include "job/loggers/tracker_rows.h"
#include "job/named_reader.h"
#include "job/plugin/job_time.h"
#include "trainer/callbacks/monitors/lr_monitor.h"
#include "trainer/callbacks/monitors/speed_monitor.h"
#include "trainer/callbacks/monitors/throughput.h"
#include "trainer/callbacks/output/log_hyperparameters.h"
#include "trainer/loggers/console_logger.h"
#include "trainer/loggers/file_logger.h"
#include "trainer/loggers/in_memory.h"
#include "trainer/loggers/json_lines.h"
#include "trainer/loggers/progress_bar.h"
#include "trainer/loggers/remote_uploader.h"
#include "trainer/loggers/run_files.h"
#include "trainer/loggers/table_lines.h"
#include "trainer/loggers/tensorboard_logger.h"

namespace composer {
namespace {

constexpr IntRange kInterval = {.min = 1, .max = 1 << 30};

PlaceholderValues Placeholders(const JobPlace& place, const JobFacts& facts) {
  return PlaceholdersOf(
      {facts.run_name, place.rank, place.local_rank, place.node_rank, place.world_size, place.local_world_size});
}

LoggerFactory ReadTensorBoard(ConfigMap config) {
  const std::string log_dir = config.String("log_dir", "");
  const int64_t flush_interval = config.Int("flush_interval", 100, kInterval);
  if (!config.Bool("rank_zero_only", true))
    config.Reject("rank_zero_only", "only rank 0 has the metrics of all ranks; leave it true");
  return [=](const JobPlace& place, const JobFacts& facts) -> absl::StatusOr<std::unique_ptr<LoggerDestination>> {
    if (place.rank != 0) return nullptr;
    TensorBoardLogger::Options options;
    options.folder = log_dir.empty() ? JoinPath(facts.run_folder, "tensorboard")
                                     : JoinPath(FillTemplate(log_dir, Placeholders(place, facts)), facts.run_name);
    options.run_name = facts.run_name;
    options.flush_interval = flush_interval;
    options.records = JoinPath(facts.run_folder, "metrics.jsonl");
    return std::make_unique<TensorBoardLogger>(options);
  };
}

LoggerFactory ReadFileLogger(ConfigMap config) {
  const std::string filename = config.String("filename", "logs/logs-rank{rank}.txt");
  FileLogger::Options options;
  options.flush_interval = config.Int("flush_interval", options.flush_interval, kInterval);
  options.log_traces = config.Bool("log_traces", options.log_traces);
  // Composer's keys, without effect: the launcher keeps both streams of every rank in logs/ anyway.
  for (const char* key : {"capture_stdout", "capture_stderr"}) config.Bool(key, true);
  return [=](const JobPlace& place, const JobFacts& facts) -> absl::StatusOr<std::unique_ptr<LoggerDestination>> {
    const bool own_file = HasPlaceholder(filename, "rank") ||
                          (place.local_rank == 0 && HasPlaceholder(filename, "node_rank")) ||
                          (place.node_rank == 0 && HasPlaceholder(filename, "local_rank"));
    if (place.rank != 0 && !own_file) return nullptr;
    FileLogger::Options own = options;
    const std::string name = FillTemplate(filename, Placeholders(place, facts));
    own.path = name.substr(0, 1) == "/" ? name : JoinPath(facts.run_folder, name);
    return std::make_unique<FileLogger>(own);
  };
}

// A program that builds a job itself reads it (InMemoryLogger::Among).
LoggerFactory ReadInMemory(ConfigMap config) {
  return [](const JobPlace& place, const JobFacts&) -> absl::StatusOr<std::unique_ptr<LoggerDestination>> {
    if (place.rank != 0) return nullptr;
    return std::make_unique<InMemoryLogger>();
  };
}

RemoteUploader::Options ReadUploads(ConfigMap& config) {
  RemoteUploader::Options options;
  options.key_format = config.String("file_path_format_string", "{run_name}/{remote_file_name}");
  if (!HasPlaceholder(options.key_format, "remote_file_name"))
    config.Reject("file_path_format_string",
                  "must contain {remote_file_name}, or every file would replace the one before");
  options.staging_folder = config.String("upload_staging_folder", "");
  options.files =
      config.StringList("files", {"metrics.jsonl", "tables.jsonl", "config.yaml", "logs/*", "tensorboard/*"});
  options.interval = config.Int("interval", options.interval, kInterval);
  options.flush_timeout = absl::Seconds(config.Int("flush_seconds", 300, {.min = 0, .max = 86400}));
  options.hasty_flush_timeout = absl::Seconds(config.Int("preempted_flush_seconds", 20, {.min = 0, .max = 86400}));
  options.queue.threads = static_cast<int>(config.Int("num_concurrent_uploads", 1, {.min = 1, .max = 64}));
  options.queue.retry.max_tries = static_cast<int>(config.Int("num_attempts", 3, {.min = 1, .max = 100}));
  config.Bool("use_procs", true);  // Composer's key, without effect: here threads wait for the network just as well
  return options;
}

LoggerFactory ReadRemoteUploader(ConfigMap config) {
  const std::string bucket = config.String("bucket_uri");
  const RemoteUploader::Options options = ReadUploads(config);
  return [=](const JobPlace& place, const JobFacts& facts) -> absl::StatusOr<std::unique_ptr<LoggerDestination>> {
    if (place.rank != 0) return nullptr;
    const PlaceholderValues values = Placeholders(place, facts);
    RemoteUploader::Options own = options;
    own.run_folder = facts.run_folder;
    own.in_haste = place.leaves;
    own.key_format = FillTemplate(options.key_format, values);
    own.staging_folder = FillTemplate(options.staging_folder, values);
    if (own.staging_folder.empty()) own.staging_folder = JoinPath(facts.run_folder, ".uploads");
    ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenPlace(place.open_store, FillTemplate(bucket, values)));
    auto uploader = std::make_unique<RemoteUploader>(std::move(store), own);
    RETURN_IF_ERROR(uploader->CheckStore());
    return uploader;
  };
}

// Only rank 0 has a tracker: it has the metrics of all ranks, and metrics.jsonl.
template <TrackerPlan (*read)(ConfigMap config)>
LoggerFactory ReadTracker(ConfigMap config) {
  return [plan = read(config)](const JobPlace& place,
                               const JobFacts& facts) -> absl::StatusOr<std::unique_ptr<LoggerDestination>> {
    if (place.rank != 0) return nullptr;
    return MakeTracker(plan, facts.run_name, facts.run_folder, {place.launch, place.generation}, place.leaves);
  };
}

constexpr NamedReader<LoggerFactory> kLoggers[] = {
    {"cometml", ReadTracker<ReadComet>},
    {"file_logger", ReadFileLogger},
    {"in_memory", ReadInMemory},
    {"mlflow", ReadTracker<ReadMlflow>},
    {"remote_uploader_downloader", ReadRemoteUploader},
    {"slack", ReadTracker<ReadSlack>},
    {"tensorboard", ReadTensorBoard},
    {"wandb", ReadTracker<ReadWandb>},
};

// Only rank 0 gets a plugin's logger: it has the metrics of all ranks.
LoggerFactory OfPlugin(PluginLoggerFactory make) {
  return [make](const JobPlace& place, const JobFacts& facts) -> absl::StatusOr<std::unique_ptr<LoggerDestination>> {
    if (place.rank != 0) return nullptr;
    return make(RunPlace{facts.run_name, facts.run_folder});
  };
}

std::vector<LoggerFactory> ReadLoggers(ConfigMap root, const PluginTables& plugins) {
  std::vector<LoggerFactory> factories;
  for (ConfigMap::Named& entry : root.NamedMaps("loggers")) {
    const auto* row =
        std::find_if(std::begin(kLoggers), std::end(kLoggers), [&](const auto& r) { return entry.name == r.name; });
    if (row != std::end(kLoggers)) {
      factories.push_back(row->read(entry.map));
      const bool tracker =
          entry.name == "cometml" || entry.name == "mlflow" || entry.name == "slack" || entry.name == "wandb";
      if (tracker && !root.Bool("metrics_file", true))
        root.Reject("metrics_file",
                    absl::StrCat("loggers.", row->name, " sends what is in metrics.jsonl; leave it true"));
    } else if (const auto plugin = plugins.loggers.find(entry.name); plugin != plugins.loggers.end()) {
      factories.push_back(OfPlugin(ReadWithPlugin(entry.name, plugin->second, entry.map)));
    } else {
      entry.map.Reject("", UnknownNameOf(entry.name, LoggerNames(), plugins.loggers));
      entry.map.IgnoreRest();
    }
  }
  return factories;
}

Hyperparameters RunSettings(const LoggingOptions& logging, const JobPlace& place, const TrainerOptions& options) {
  Hyperparameters settings = {
      {"composer_version", COMPOSER_VERSION},
      {"num_nodes", absl::StrCat(place.world_size / std::max(1, place.local_world_size))},
      {options.device.is_cpu() ? "num_cpus_per_node" : "num_gpus_per_node", absl::StrCat(place.local_world_size)},
      {"rank_zero_seed", absl::StrCat(options.seed)}};
  if (const std::string commit = GitCommitOf("."); !commit.empty()) settings.emplace_back("git_commit", commit);
  if (!place.node_name.empty()) settings.emplace_back("node_name", place.node_name);
  if (logging.auto_log_hparams) settings.insert(settings.end(), logging.config.begin(), logging.config.end());
  return settings;
}

bool IsTerminal(const LoggingOptions& logging, const JobPlace& place) {
  return logging.console_is_stdout ? place.stdout_is_terminal : place.stderr_is_terminal;
}

void AddConsole(const LoggingOptions& logging, const JobPlace& place, TrainerOptions& options) {
  ConsoleOptions console;
  console.fd = logging.console_is_stdout ? 1 : 2;
  console.interval = logging.console_log_interval;
  console.erase_line = logging.progress_bar && IsTerminal(logging, place);
  ConsoleLogger made = MakeConsoleLogger(console);
  options.callbacks.push_back(std::move(made.callback));
  options.loggers.push_back(std::move(made.destination));
}

void AddProgressBar(const LoggingOptions& logging, const JobPlace& place, TrainerOptions& options) {
  ProgressBar::Options bar;
  bar.fd = logging.console_is_stdout ? 1 : 2;
  bar.in_place = IsTerminal(logging, place);
  bar.columns = place.terminal_columns;
  bar.terminal = place.terminal;
  options.callbacks.push_back(std::make_unique<ProgressBar>(bar, RealClock::Get()));
}

// Adds what every run's records contain unless the job says how: learning rates, samples and tokens per second.
void AddUsualRecords(TrainerOptions& options) {
  bool rates = false, speed = false;
  for (const auto& callback : options.callbacks) {
    rates = rates || dynamic_cast<const LRMonitor*>(callback.get()) != nullptr;
    speed = speed || dynamic_cast<const SpeedMonitor*>(callback.get()) != nullptr;
  }
  if (!rates) options.callbacks.push_back(std::make_unique<LRMonitor>());
  if (!speed) options.callbacks.push_back(std::make_unique<Throughput>());
}

// Trackers read the list of files when they are closed, so what writes it comes before them.
void AddRunFiles(const RecordOrigin& origin, TrainerOptions& options) {
  auto files = TrackerLogger::Files::kNone;
  for (const auto& logger : options.loggers) {
    if (const auto* tracker = dynamic_cast<const TrackerLogger*>(logger.get()))
      files = std::max(files, tracker->files());
  }
  if (files == TrackerLogger::Files::kNone) return;
  RunFiles::Options own{.run_folder = options.run_folder,
                        .origin = origin,
                        .lists_files = files == TrackerLogger::Files::kAll,
                        .checkpoint_folder = options.save.save_folder,
                        .latest = options.save.save_latest};
  options.loggers.insert(options.loggers.begin(), std::make_unique<RunFiles>(std::move(own)));
}

// Uploaders must be closed last: they upload what the others wrote when they were closed.
void PutUploadersLast(std::vector<std::unique_ptr<LoggerDestination>>& loggers) {
  std::stable_partition(loggers.begin(), loggers.end(),
                        [](const auto& logger) { return dynamic_cast<RemoteUploader*>(logger.get()) == nullptr; });
}

}  // namespace

std::vector<std::string> LoggerNames() { return NamesOf(kLoggers); }

LoggingOptions ReadLogging(ConfigMap root, const PluginTables& plugins) {
  LoggingOptions logging;
  logging.progress_bar = root.Bool("progress_bar", true);
  logging.metrics_file = root.Bool("metrics_file", true);
  logging.log_to_console = root.Bool("log_to_console", false);
  logging.console_is_stdout = root.Choice("console_stream", {"stderr", "stdout"}, "stderr") == "stdout";
  logging.console_log_interval = ReadInterval(root, "console_log_interval", "1ba");
  logging.log_traces = root.Bool("log_traces", false);
  logging.auto_log_hparams = root.Bool("auto_log_hparams", false);
  logging.loggers = ReadLoggers(root, plugins);
  return logging;
}

absl::Status AddLoggers(const LoggingOptions& logging, const JobPlace& place, const JobFacts& facts,
                        TrainerOptions& options) {
  options.engine.log_traces = logging.log_traces;
  for (const LoggerFactory& make : logging.loggers) {
    ASSIGN_OR_RETURN(std::unique_ptr<LoggerDestination> logger, make(place, facts));
    if (logger != nullptr) options.loggers.push_back(std::move(logger));
  }
  const absl::Cleanup uploaders_last = [&options] { PutUploadersLast(options.loggers); };
  options.callbacks.insert(options.callbacks.begin(),
                           std::make_unique<LogHyperparameters>(RunSettings(logging, place, options)));
  if (place.rank != 0) return absl::OkStatus();
  if (logging.metrics_file) {
    const RecordOrigin origin{place.launch, place.generation};
    ASSIGN_OR_RETURN(auto file, JsonLines::Open(JoinPath(options.run_folder, "metrics.jsonl"), origin));
    options.loggers.push_back(std::move(file));
    AddRunFiles(origin, options);
    options.loggers.push_back(std::make_unique<TableLines>(JoinPath(options.run_folder, "tables.jsonl"), origin));
    AddUsualRecords(options);
  }
  if (logging.log_to_console) AddConsole(logging, place, options);
  if (logging.progress_bar) AddProgressBar(logging, place, options);
  return absl::OkStatus();
}

}  // namespace composer
