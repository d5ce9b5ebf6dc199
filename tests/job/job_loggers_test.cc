// Tests the loggers of a job's YAML: names, keys, and which ranks have them.
// SPDX-License-Identifier: Apache-2.0
#include "job/job_loggers.h"

#include <unistd.h>

#include "base/file.h"
#include "job/loggers/git_commit.h"
#include "storage/memory_store.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/named_keys.h"
#include "trainer/callbacks/monitors/lr_monitor.h"
#include "trainer/callbacks/monitors/speed_monitor.h"
#include "trainer/core/state.h"
#include "trainer/loggers/in_memory.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const std::vector<NamedKeys>& Rows() {
  static const auto& rows = *new std::vector<NamedKeys>{
      {"cometml",
       "CometMLLogger",
       0,
       {{"workspace", "w"},
        {"project_name", "p"},
        {"name", "n"},
        {"tags", "[a]"},
        {"log_artifacts", "true"},
        {"logging_buffer_seconds", "3"},
        {"flush_seconds", "1"},
        {"preempted_flush_seconds", "1"},
        {"rank_zero_only", "true"}}},
      {"file_logger",
       "FileLogger",
       0,
       {{"filename", "'log{rank}.txt'"},
        {"flush_interval", "1"},
        {"log_traces", "false"},
        {"capture_stdout", "false"},
        {"capture_stderr", "false"}}},
      {"in_memory", "InMemoryLogger", 0, {}},
      {"mlflow",
       "MLFlowLogger",
       0,
       {{"tracking_uri", "'http://localhost:1'"},
        {"experiment_name", "e"},
        {"run_name", "r"},
        {"tags", "['team=a']"},
        {"log_artifacts", "true"},
        {"rewound_steps", "keep"},
        {"logging_buffer_seconds", "3"},
        {"flush_seconds", "1"},
        {"preempted_flush_seconds", "1"},
        {"rank_zero_only", "true"}}},
      {"remote_uploader_downloader",
       "RemoteUploaderDownloader",
       1,
       {{"bucket_uri", "'s3://bucket/{run_name}'"},
        {"file_path_format_string", "'rank{rank}/{remote_file_name}'"},
        {"upload_staging_folder", "'staged-{run_name}'"},
        {"files", "['*.txt']"},
        {"interval", "1"},
        {"num_concurrent_uploads", "2"},
        {"num_attempts", "1"},
        {"use_procs", "false"}}},
      {"slack",
       "SlackLogger",
       0,
       {{"include_keys", "['loss/*']"},
        {"log_interval", "2ep"},
        {"max_logs_per_message", "5"},
        {"events", "[end]"},
        {"logging_buffer_seconds", "3"},
        {"flush_seconds", "1"},
        {"preempted_flush_seconds", "1"},
        {"rank_zero_only", "true"}}},
      {"tensorboard", "TensorBoardLogger", 0, {{"log_dir", "tb"}, {"flush_interval", "1"}, {"rank_zero_only", "true"}}},
      {"wandb",
       "WandBLogger",
       0,
       {{"project", "p"},
        {"entity", "e"},
        {"group", "g"},
        {"name", "n"},
        {"tags", "[a]"},
        {"log_artifacts", "true"},
        {"logging_buffer_seconds", "3"},
        {"flush_seconds", "1"},
        {"preempted_flush_seconds", "1"},
        {"rank_zero_only", "true"}}},
  };
  return rows;
}

class JobLoggersTest : public ::testing::Test {
 protected:
  JobLoggersTest() { facts_.run_name = "r", facts_.run_folder = options_.run_folder = dir_.path(); }
  LoggingOptions Read(const std::string& yaml, const PluginTables& plugins = {}) {
    LoggingOptions logging;
    EXPECT_EQ(ErrorOf(yaml, [&](ConfigMap& root) { logging = ReadLogging(root, plugins); }), "") << yaml;
    return logging;
  }
  static std::string Error(const std::string& yaml, const PluginTables& plugins = {}) {
    return ErrorOf(yaml, [&](ConfigMap& root) { ReadLogging(root, plugins); });
  }
  // Returns null when this rank has none.
  std::unique_ptr<LoggerDestination> One(const std::string& name, const std::string& keys, const JobPlace& place = {}) {
    const auto logging = Read(absl::StrCat("{loggers: {", name, ": {", keys, "}}}"));
    EXPECT_EQ(logging.loggers.size(), 1u);
    return logging.loggers[0](place, facts_).value();
  }
  JobPlace WithStore(int rank = 0) {
    JobPlace place = {.rank = rank};
    place.open_store = [this](const std::string& url) -> absl::StatusOr<std::shared_ptr<ObjectStore>> {
      opened_ = url;
      if (url == "s3://wrong") return absl::NotFoundError("no such bucket");
      return store_;
    };
    return place;
  }
  // Returns the names of what a rank of this job gets.
  std::vector<std::string> Added(const LoggingOptions& logging, const JobPlace& place) {
    options_.loggers.clear(), options_.callbacks.clear();
    const absl::Status status = AddLoggers(logging, place, facts_, options_);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::string> names;
    for (const auto& logger : options_.loggers) names.push_back(logger->name());
    for (const auto& callback : options_.callbacks) names.push_back(callback->name());
    return names;
  }
  Hyperparameters Settings() {
    MetricHistory history;
    Logger logger;
    logger.AddDestination(std::make_unique<InMemoryLogger>(&history));
    State state;
    EXPECT_TRUE(options_.callbacks[0]->Run(Event::kInit, state, logger).ok());
    return history.hyperparameters;
  }
  static absl::Status WriteBatch(LoggerDestination& logger, int64_t batch) {
    Timestamp now;
    now.batch = batch;
    const std::vector<MetricValue> metrics = {{"loss/train/total", 0.5}};
    return logger.Write({now, metrics});
  }
  TempDir dir_;
  JobFacts facts_;
  TrainerOptions options_;
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  std::string opened_;
};

TEST_F(JobLoggersTest, UploadsGoWhereTheKeysSayAndAreClosedLast) {
  const LoggingOptions logging =
      Read("{progress_bar: false, loggers: {remote_uploader_downloader: {bucket_uri: 's3://b/{run_name}'}}}");
  EXPECT_THAT(Added(logging, WithStore()), ElementsAre("JsonLines", "TableLines", "RemoteUploaderDownloader",
                                                       "LogHyperparameters", "LRMonitor", "Throughput"));
  EXPECT_EQ(opened_, "s3://b/r");
  ASSERT_TRUE(WriteBatch(*options_.loggers[0], 1).ok());
  ASSERT_TRUE(options_.loggers[2]->Close().ok());
  EXPECT_THAT(*store_->List(""), ElementsAre("r/metrics.jsonl", "r/uploads_begin_here.txt"));
  EXPECT_THAT(Added(logging, WithStore(/*rank=*/1)), ElementsAre("LogHyperparameters"));
  const LoggingOptions wrong = Read("{loggers: {remote_uploader_downloader: {bucket_uri: 's3://wrong'}}}");
  EXPECT_THAT(std::string(AddLoggers(wrong, WithStore(), facts_, options_).message()), HasSubstr("no such bucket"));
  EXPECT_THAT(Error("{metrics_file: false, loggers: {wandb: }}"), HasSubstr("metrics_file: loggers.wandb sends what"));
  EXPECT_THAT(Error("{loggers: {mlflow: {tags: [team]}}}"), HasSubstr("`team` must be NAME=VALUE"));
  EXPECT_THAT(Error("{loggers: {slack: {events: [begin]}}}"), HasSubstr("`begin` is not one of start, restart, end"));
  EXPECT_THAT(Error("{loggers: {slack: {include_keys: ['a,b']}}}"), HasSubstr("may not contain a comma"));
  EXPECT_THAT(Error("{loggers: {remote_uploader_downloader: {bucket_uri: b, file_path_format_string: x}}}"),
              HasSubstr("must contain {remote_file_name}"));
}

TEST_F(JobLoggersTest, FilesAreListedForTrackersAndBeforeTheyAreClosed) {
  const LoggingOptions logging = Read("{progress_bar: false, loggers: {wandb: , tensorboard: }}");
  EXPECT_THAT(Added(logging, {}), ElementsAre("RunFiles", "WandBLogger", "TensorBoardLogger", "JsonLines", "TableLines",
                                              "LogHyperparameters", "LRMonitor", "Throughput"));
}

TEST(GitCommit, IsThatOfTheNearestWorkingTree) {
  const TempDir dir;
  const std::string commit(40, 'a'), packed(40, 'b');
  ASSERT_TRUE(MakeDirs(dir.Path("tree/.git/refs/heads")).ok() && MakeDirs(dir.Path("tree/sub/folder")).ok());
  ASSERT_TRUE(AtomicWriteFile(dir.Path("tree/.git/HEAD"), "ref: refs/heads/main\n").ok());
  EXPECT_EQ(GitCommitOf(dir.Path("tree/sub/folder")), "");
  ASSERT_TRUE(AtomicWriteFile(dir.Path("tree/.git/packed-refs"), "# pack-refs\n" + packed + " refs/heads/main\n").ok());
  EXPECT_EQ(GitCommitOf(dir.Path("tree/sub/folder")), packed);
  ASSERT_TRUE(AtomicWriteFile(dir.Path("tree/.git/refs/heads/main"), commit + "\n").ok());
  EXPECT_EQ(GitCommitOf(dir.Path("tree")), commit);
  ASSERT_TRUE(MakeDirs(dir.Path("work")).ok() && MakeDirs(dir.Path("tree/.git/worktrees/work")).ok());
  ASSERT_TRUE(AtomicWriteFile(dir.Path("work/.git"), "gitdir: " + dir.Path("tree/.git/worktrees/work") + "\n").ok());
  ASSERT_TRUE(AtomicWriteFile(dir.Path("tree/.git/worktrees/work/HEAD"), "ref: refs/heads/main\n").ok());
  ASSERT_TRUE(AtomicWriteFile(dir.Path("tree/.git/worktrees/work/commondir"), "../..\n").ok());
  EXPECT_EQ(GitCommitOf(dir.Path("work")), commit);
  ASSERT_TRUE(AtomicWriteFile(dir.Path("tree/.git/HEAD"), packed + "\n").ok());
  EXPECT_EQ(GitCommitOf(dir.Path("tree/sub")), packed) << "a checked-out commit";
}

TEST_F(JobLoggersTest, TheTableIsThatOfTheJob) { EXPECT_EQ(NamesOfRows(Rows()), LoggerNames()); }

TEST_F(JobLoggersTest, EveryNameIsMadeWithItsDefaultsAndWithAllItsKeys) {
  setenv("MLFLOW_TRACKING_URI", "http://localhost:1", 1);
  setenv("SLACK_WEBHOOK_URL", "https://localhost/x", 1);
  for (const NamedKeys& row : Rows()) {
    for (const std::string& yaml : {MinimalYaml("loggers", row), YamlOf("loggers", row.name, row.keys)}) {
      const auto logging = Read(yaml);
      ASSERT_EQ(logging.loggers.size(), 1u);
      EXPECT_EQ(logging.loggers[0](WithStore(), facts_).value()->name(), row.made);
    }
  }
}

TEST_F(JobLoggersTest, EveryKeyIsReadAndNoOther) {
  CheckKeys("loggers", Rows(), [](ConfigMap& root) { ReadLogging(root, {}); });
}

TEST_F(JobLoggersTest, MistakesAreNamed) {
  EXPECT_THAT(
      Error("{loggers: {tensorbord: }}"),
      HasSubstr("`tensorbord` is not one of cometml, file_logger, in_memory, mlflow, remote_uploader_downloader, "
                "slack, tensorboard, wandb (did"));
  EXPECT_THAT(Error("{loggers: {tensorboard: {flush_interval: 0}}}"), HasSubstr("must be at least 1, got 0"));
  EXPECT_THAT(Error("{loggers: {tensorboard: {rank_zero_only: false}}}"), HasSubstr("leave it true"));
  EXPECT_THAT(Error("{console_stream: both}"), HasSubstr("`both` is not one of stderr, stdout"));
  EXPECT_THAT(Error("{console_log_interval: 5sp}"), HasSubstr("console_log_interval: must be at least one batch"));
  EXPECT_THAT(Error("{progress_bar: 1}"), HasSubstr("progress_bar: expected true or false, got `1`"));
}

TEST_F(JobLoggersTest, TheRootsKeysHaveComposersDefaults) {
  const LoggingOptions usual = Read("{}");
  EXPECT_TRUE(usual.progress_bar && usual.metrics_file);
  EXPECT_FALSE(usual.log_to_console || usual.console_is_stdout || usual.log_traces || usual.auto_log_hparams);
  EXPECT_EQ(usual.console_log_interval.ToString(), "1ba");
  EXPECT_THAT(usual.loggers, IsEmpty());
  const LoggingOptions other = Read(
      "{progress_bar: false, metrics_file: false, log_to_console: true, console_stream: stdout, "
      "console_log_interval: 2ep, log_traces: true, auto_log_hparams: true}");
  EXPECT_FALSE(other.progress_bar || other.metrics_file);
  EXPECT_TRUE(other.log_to_console && other.console_is_stdout && other.log_traces && other.auto_log_hparams);
  EXPECT_EQ(other.console_log_interval.ToString(), "2ep");
  Added(other, {});
  EXPECT_TRUE(options_.engine.log_traces);
}

TEST_F(JobLoggersTest, RankZeroHasTheLoggersAndEveryRankTheSettings) {
  const LoggingOptions logging = Read("{log_to_console: true, loggers: {tensorboard: , file_logger: }}");
  EXPECT_THAT(Added(logging, {.world_size = 2}),
              UnorderedElementsAre("TensorBoardLogger", "FileLogger", "JsonLines", "TableLines", "ConsoleLogger",
                                   "LogHyperparameters", "LRMonitor", "Throughput", "ConsoleLogger", "ProgressBar"));
  EXPECT_EQ(options_.callbacks[0]->name(), "LogHyperparameters");  // before all others
  EXPECT_TRUE(PathExists(dir_.Path("metrics.jsonl")));
  EXPECT_THAT(Added(logging, {.rank = 1, .world_size = 2}), UnorderedElementsAre("FileLogger", "LogHyperparameters"));
  EXPECT_THAT(Added(Read("{progress_bar: false, metrics_file: false}"), {}), ElementsAre("LogHyperparameters"));
}

// The job's own come first, and log more.
TEST_F(JobLoggersTest, TheUsualRecordsGiveWayToTheJobsOwn) {
  options_.callbacks.push_back(std::make_unique<LRMonitor>());
  options_.callbacks.push_back(std::make_unique<SpeedMonitor>(SpeedMonitor::Options{}));
  ASSERT_TRUE(AddLoggers(Read("{progress_bar: false}"), {}, facts_, options_).ok());
  std::vector<std::string> names;
  for (const auto& callback : options_.callbacks) names.push_back(callback->name());
  EXPECT_THAT(names, ElementsAre("LogHyperparameters", "LRMonitor", "SpeedMonitor"));
}

TEST_F(JobLoggersTest, RecordsSayWhichStartOfTheRunTheyAreOf) {
  ASSERT_TRUE(AddLoggers(Read("{progress_bar: false}"), {.generation = 4, .launch = 7}, facts_, options_).ok());
  ASSERT_TRUE(WriteBatch(*options_.loggers[0], 1).ok());
  EXPECT_THAT(*ReadFile(dir_.Path("metrics.jsonl")), HasSubstr("\"launch\":7,\"generation\":4,"));
}

TEST_F(JobLoggersTest, TheSettingsAreComposersAndAllKeysWhenAskedFor) {
  LoggingOptions logging = Read("{}");
  logging.config = {{"optimizers/lr", "0.5"}};
  options_.seed = 17;
  Added(logging, {.world_size = 4, .local_world_size = 2});
  auto settings = Settings();
  std::erase_if(settings, [](const auto& setting) { return setting.first == "git_commit"; });  // in a working tree
  EXPECT_THAT(settings, ElementsAre(std::pair("composer_version", COMPOSER_VERSION), std::pair("num_nodes", "2"),
                                    std::pair("num_cpus_per_node", "2"), std::pair("rank_zero_seed", "17")));
  Added(logging, {.node_name = "node-7"});
  EXPECT_EQ(Settings().back(), std::pair(std::string("node_name"), std::string("node-7")));
  logging.auto_log_hparams = true;
  options_.device = at::Device(at::kCUDA, 0);
  Added(logging, {});
  EXPECT_EQ(Settings()[2].first, "num_gpus_per_node");
  EXPECT_EQ(Settings().back(), std::pair(std::string("optimizers/lr"), std::string("0.5")));
}

TEST_F(JobLoggersTest, TensorBoardWritesWhereItsKeysSay) {
  const auto written = [&](const std::string& folder) {
    return IsDirectory(dir_.Path(folder)) ? ListDir(dir_.Path(folder)).value().size() : 0;
  };
  ASSERT_TRUE(WriteBatch(*One("tensorboard", "flush_interval: 1"), 1).ok());
  EXPECT_EQ(written("tensorboard"), 1u);
  ASSERT_TRUE(
      WriteBatch(*One("tensorboard", absl::StrCat("flush_interval: 1, log_dir: '", dir_.Path("w{world_size}"), "'")), 1)
          .ok());
  EXPECT_EQ(written("w1/r"), 1u);  // same as Composer: log_dir/run_name
  ASSERT_TRUE(WriteBatch(*One("tensorboard", absl::StrCat("log_dir: ", dir_.Path("later"))), 1).ok());
  EXPECT_EQ(written("later/r"), 0u);  // not before 100 batches
  EXPECT_EQ(One("tensorboard", "", {.rank = 1, .world_size = 2}), nullptr);
}

TEST_F(JobLoggersTest, AFileLoggerWithoutARankInItsNameIsRankZeros) {
  const JobPlace other = {.rank = 3, .world_size = 4, .local_rank = 1, .local_world_size = 2, .node_rank = 1};
  EXPECT_NE(One("file_logger", "", other), nullptr);
  EXPECT_EQ(One("file_logger", "filename: log.txt", other), nullptr);
  EXPECT_EQ(One("file_logger", "filename: 'node{node_rank}.txt'", other), nullptr);
  EXPECT_NE(One("file_logger", "filename: 'node{node_rank}.txt'", {.rank = 2, .world_size = 4, .node_rank = 1}),
            nullptr);
  const auto logger = One("file_logger", "filename: 'x/{run_name}-{rank}.txt', flush_interval: 1", other);
  ASSERT_TRUE(WriteBatch(*logger, 1).ok());
  EXPECT_THAT(ReadFile(dir_.Path("x/r-3.txt")).value(), HasSubstr("loss/train/total"));
}

// A plugin's logger.
class Nothing final : public LoggerDestination {
 public:
  std::string name() const override { return "Nothing"; }
  absl::Status Write(const MetricRecord&) override { return absl::OkStatus(); }
};

TEST_F(JobLoggersTest, PluginsNamesComeAfterAndAreRankZeros) {
  PluginTables plugins;
  std::string told;
  plugins.loggers["mine"] = {
      "libmine.so", [&](PluginConfig& config) -> PluginLoggerFactory {
        const int64_t port = config.Int("port", 1);
        return [&told, port](const RunPlace& place) -> absl::StatusOr<std::unique_ptr<LoggerDestination>> {
          told = absl::StrCat(place.run_name, " ", place.run_folder, " ", port);
          if (port == 0) return absl::UnavailableError("nobody listens");
          return std::make_unique<Nothing>();
        };
      }};
  const LoggingOptions logging =
      Read("{progress_bar: false, metrics_file: false, loggers: {mine: {port: 7}}}", plugins);
  EXPECT_THAT(Added(logging, {}), ElementsAre("Nothing", "LogHyperparameters"));
  EXPECT_EQ(told, absl::StrCat("r ", dir_.path(), " 7"));
  EXPECT_THAT(Added(logging, {.rank = 1, .world_size = 2}), ElementsAre("LogHyperparameters"));
  EXPECT_THAT(Error("{loggers: {mime: }}", plugins), HasSubstr("(did you mean `mine`?)"));
  const LoggingOptions failing = Read("{loggers: {mine: {port: 0}}}", plugins);
  EXPECT_THAT(std::string(AddLoggers(failing, {}, facts_, options_).message()), HasSubstr("nobody listens"));
}

}  // namespace
}  // namespace composer
