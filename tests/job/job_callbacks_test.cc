// Tests the table of callbacks in a job's YAML: names, keys, defaults, and the effect of the keys on what is made.
// SPDX-License-Identifier: Apache-2.0
#include "job/job_callbacks.h"

#include <torch/types.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "base/file.h"
#include "fault/throttle.h"
#include "job/job_checkpoints.h"
#include "job/job_generate.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/callbacks/callback_fixture.h"
#include "tests/trainer/callbacks/small_models.h"
#include "tests/worker/named_keys.h"
#include "trainer/core/communicator.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<NamedKeys>& Rows() {
  static const auto& rows = *new std::vector<NamedKeys>{
      {"activation_monitor",
       "ActivationMonitor",
       0,
       {{"interval", "2ep"}, {"ignore_module_types", "[Dropout]"}, {"only_log_wandb", "false"}}},
      {"checkpoint_saver",
       "",
       1,
       {{"folder", "ck"},
        {"save_interval", "5ba"},
        {"num_checkpoints_to_keep", "3"},
        {"overwrite", "true"},
        {"weights_only", "true"},
        {"ignore_keys", "[optimizer/*]"},
        {"save_metrics", "true"},
        {"top_k", "{monitor: loss/train/total}"}}},
      {"early_stopper",
       "EarlyStopper",
       1,
       {{"monitor", "loss/train/total"},
        {"dataloader_label", "eval"},
        {"comp", "less"},
        {"min_delta", "0.5"},
        {"patience", "2ba"}}},
      {"eval_output_logging", "EvalOutputLogging", 0, {{"num_samples", "3"}, {"log_tokens", "true"}}},
      {"export_for_inference", "ExportForInference", 0, {{"save_path", "out"}, {"save_format", "safetensors"}}},
      {"fail_at",
       "FailAt",
       0,
       {{"rank", "1"}, {"batch", "2"}, {"how", "throw"}, {"when", "batch_end"}, {"every_generation", "true"}}},
      {"free_outputs", "FreeOutputs", 0, {}},
      {"generate",
       "",
       2,
       {{"prompts", "[In the beginning]"},
        {"interval", "5ba"},
        {"batch_size", "2"},
        {"max_new_tokens", "5"},
        {"eos_token_id", "[10]"},
        {"do_sample", "true"},
        {"temperature", "0.5"},
        {"top_k", "3"},
        {"top_p", "0.9"},
        {"seed", "4"},
        {"use_cache", "false"},
        {"summon_full_params", "true"}}},
      {"image_visualizer",
       "ImageVisualizer",
       0,
       {{"interval", "2ba"},
        {"mode", "segmentation"},
        {"num_images", "2"},
        {"channels_last", "true"},
        {"input_key", "pixels"},
        {"target_key", "1"}}},
      {"load_checkpoint",
       "LoadCheckpoint",
       1,
       {{"load_path", "there"},
        {"load_weights_only", "true"},
        {"strict_model_weights", "false"},
        {"ignore_keys", "[optimizer/*]"},
        {"exclude_algorithms", "[BlurPool]"},
        {"event", "after_load"}}},
      {"log_diffusion_images",
       "LogDiffusionImages",
       0,
       {{"class_labels", "[1, 2]"},
        {"conditions", "there.safetensors"},
        {"num_images", "2"},
        {"sampler", "ddpm"},
        {"num_inference_steps", "5"},
        {"eta", "0.5"},
        {"guidance_scale", "3"},
        {"seed", "4"}}},
      {"lr_monitor", "LRMonitor", 0, {}},
      {"memory_monitor",
       "MemoryMonitor",
       0,
       {{"interval", "2"}, {"memory_keys", "{num_alloc_retries: retries}"}, {"dist_aggregate_batch_interval", "4"}}},
      {"memory_snapshot",
       "MemorySnapshot",
       0,
       {{"skip_batches", "0"},
        {"interval", "1ba"},
        {"max_entries", "100"},
        {"folder", "snapshots"},
        {"filename", "'of{rank}'"}}},
      {"mlperf",
       "MLPerfCallback",
       0,
       {{"root_folder", "results"},
        {"index", "2"},
        {"benchmark", "bert"},
        {"target", "0.5"},
        {"metric_name", "CrossEntropy"},
        {"metric_label", "test"},
        {"comp", "greater"},
        {"division", "closed"},
        {"submitter", "me"},
        {"system_name", "box"},
        {"status", "cloud"},
        {"cache_clear_cmd", "'true'"},
        {"exit_at_target", "true"},
        {"host_processors_per_node", "'2'"},
        {"hyperparameters", "{lars_epsilon: 0.5}"}}},
      {"nan_monitor", "NaNMonitor", 0, {}},
      {"oom_observer",
       "OOMObserver",
       0,
       {{"folder", "oom"}, {"filename", "'of{rank}'"}, {"record_history", "true"}, {"max_entries", "100"}}},
      {"optimizer_monitor", "OptimizerMonitor", 0, {{"batch_log_interval", "1"}, {"log_optimizer_metrics", "false"}}},
      {"runtime_estimator", "RuntimeEstimator", 0, {{"skip_batches", "0"}, {"time_unit", "minutes"}}},
      {"sample_recorder", "SampleRecorder", 0, {}},
      {"speed_monitor",
       "SpeedMonitor",
       0,
       {{"window_size", "1"}, {"gpu_flops_available", "1e12"}, {"time_unit", "minutes"}}},
      {"system_metrics_monitor",
       "SystemMetricsMonitor",
       0,
       {{"log_all_data", "true"}, {"seconds", "0"}, {"dist_aggregate_batch_interval", "2"}}},
      {"threshold_stopper",
       "ThresholdStopper",
       2,
       {{"monitor", "loss/train/total"},
        {"threshold", "1"},
        {"dataloader_label", "eval"},
        {"comp", "greater"},
        {"stop_on_batch", "true"}}},
      {"throttle", "Throttle", 0, {{"seconds", "0.5"}}},
  };
  return rows;
}

class JobCallbacksTest : public CallbackTest {
 protected:
  std::vector<std::unique_ptr<Callback>> Made(const std::string& yaml, const PluginTables& plugins = {}) {
    std::vector<CallbackFactory> factories;
    EXPECT_EQ(ErrorOf(yaml,
                      [&](ConfigMap& root) {
                        factories = ReadCallbacks(root, plugins), ReadCheckpointSavers(root, "r"),
                        ReadGenerate(root, 7);
                      }),
              "")
        << yaml;
    std::vector<std::unique_ptr<Callback>> made;
    for (const CallbackFactory& make : factories) made.push_back(make(place_, facts_));
    return made;
  }
  // Makes one callback, e.g. "memory_monitor", "interval: 2".
  std::unique_ptr<Callback> One(const std::string& name, const std::string& keys = "") {
    auto made = Made(absl::StrCat("{callbacks: {", name, ": {", keys, "}}}"));
    if (made.size() == 1) return std::move(made[0]);
    ADD_FAILURE() << name << ": " << made.size() << " made";
    return std::make_unique<Throttle>(Throttle::Options());
  }
  static std::string Error(const std::string& yaml, const PluginTables& plugins = {}) {
    return ErrorOf(yaml, [&](ConfigMap& root) { ReadCallbacks(root, plugins); });
  }
  // Returns the error of one key.
  static std::string KeyError(const std::string& name, const std::string& keys) {
    return Error(absl::StrCat("{callbacks: {", name, ": {", keys, "}}}"));
  }
  void Fired(Callback& callback, Event event) {
    const absl::Status status = Fire(callback, event);
    EXPECT_TRUE(status.ok()) << status;
  }
  void UseModel() {
    state_.model = std::make_shared<LinearModel>();
    state_.optimizer = std::make_unique<PlainSgd>(*state_.model, 0.5);
    state_.identity.run_folder = dir_.path();
  }

  TempDir dir_;
  JobPlace place_;
  JobFacts facts_;
};

TEST_F(JobCallbacksTest, TheTableIsThatOfTheJob) { EXPECT_EQ(NamesOfRows(Rows()), CallbackNames()); }

TEST_F(JobCallbacksTest, EveryNameIsMadeWithItsDefaultsAndWithAllItsKeys) {
  for (const NamedKeys& row : Rows()) {
    for (const std::string& yaml : {MinimalYaml("callbacks", row), YamlOf("callbacks", row.name, row.keys)}) {
      const auto made = Made(yaml);
      ASSERT_EQ(made.size(), *row.made == '\0' ? 0u : 1u) << yaml;
      if (!made.empty()) EXPECT_EQ(made[0]->name(), row.made);
    }
  }
}

TEST_F(JobCallbacksTest, EveryKeyIsReadAndNoOther) {
  CheckKeys("callbacks", Rows(), [](ConfigMap& root) {
    ReadCallbacks(root, {});
    ReadCheckpointSavers(root, "r");
    ReadGenerate(root, 7);
  });
}

TEST_F(JobCallbacksTest, GenerateIsReadAsWritten) {
  std::vector<GenerateCallback> read;
  const auto error = [&](const std::string& keys) {
    return ErrorOf(absl::StrCat("{callbacks: [{generate: {", keys, "}}, {generate: {prompts: a, interval: 3ep}}]}"),
                   [&](ConfigMap& root) { ReadCallbacks(root, {}), read = ReadGenerate(root, 7); });
  };
  EXPECT_EQ(error("prompts: [a, b c], interval: 100ba, batch_size: 4, max_new_tokens: 50, do_sample: true, "
                  "temperature: 0.7, top_k: 0, top_p: 0.9, eos_token_id: [0, 10], summon_full_params: true"),
            "");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_THAT(read[0].prompts, ElementsAre("a", "b c"));
  EXPECT_EQ(read[0].interval, Time::Batches(100));
  const GenerateOptions& options = read[0].options;
  EXPECT_EQ(options.batch_size, 4);
  EXPECT_EQ(options.max_new_tokens, 50);
  EXPECT_THAT(options.eos_token_id, ElementsAre(0, 10));
  EXPECT_TRUE(options.summon_full_params);
  EXPECT_TRUE(options.sampling.do_sample);
  EXPECT_EQ(options.sampling.temperature, 0.7);
  EXPECT_EQ(options.sampling.top_k, 0);
  EXPECT_EQ(options.sampling.top_p, 0.9);
  EXPECT_EQ(options.sampling.seed, 7u);
  EXPECT_THAT(read[1].prompts, ElementsAre("a"));
  EXPECT_EQ(read[1].interval, Time::Epochs(3));
  EXPECT_FALSE(read[1].options.sampling.do_sample);
  EXPECT_EQ(error("prompts: [a], interval: 1, eos_token_id: 10"), "");
  EXPECT_THAT(read[0].options.eos_token_id, ElementsAre(10));
  EXPECT_THAT(error("prompts: [a], interval: 1, eos_token_id: [3, -1]"),
              HasSubstr("at least 0, or a list of such, got `-1`"));
  EXPECT_THAT(error("prompts: [a, ''], interval: 1"), HasSubstr("generate.prompts: has an empty text"));
  EXPECT_THAT(error("prompts: [], interval: 1"), HasSubstr("generate.prompts: must have at least one text"));
  EXPECT_THAT(error("prompts: [a], interval: 1, temperature: 0"), HasSubstr("temperature must be above 0, got 0"));
  EXPECT_THAT(error("prompts: [a], interval: 1, top_p: 1.5"),
              HasSubstr("top_p must be above 0 and at most 1, got 1.5"));
  EXPECT_THAT(error("prompts: [a], interval: soon"), HasSubstr("generate.interval: "));
  EXPECT_EQ(error("prompts: [a], interval: 1, min_new_tokens: 3, stop_strings: [x, yz], repetition_penalty: 1.5, "
                  "no_repeat_ngram_size: 2, num_beams: 4, length_penalty: -0.5, early_stopping: never, "
                  "chat_template: /models/chat, system: Be brief."),
            "");
  EXPECT_EQ(read[0].options.logits.min_new_tokens, 3);
  EXPECT_EQ(read[0].options.logits.repetition_penalty, 1.5);
  EXPECT_EQ(read[0].options.logits.no_repeat_ngram_size, 2);
  EXPECT_EQ(read[0].options.beams.num_beams, 4);
  EXPECT_EQ(read[0].options.beams.length_penalty, -0.5);
  EXPECT_EQ(read[0].options.beams.early_stopping, BeamOptions::EarlyStopping::kNever);
  EXPECT_THAT(read[0].options.stop_strings, ElementsAre("x", "yz"));
  EXPECT_EQ(read[0].chat_template, "/models/chat");
  EXPECT_EQ(read[0].system, "Be brief.");
  EXPECT_EQ(error("prompts: [a], interval: 1, early_stopping: true"), "");
  EXPECT_EQ(read[0].options.beams.early_stopping, BeamOptions::EarlyStopping::kTrue);
  EXPECT_THAT(error("prompts: [a], interval: 1, min_new_tokens: 21"), HasSubstr("from 0 to max_new_tokens, 20"));
  EXPECT_THAT(error("prompts: [a], interval: 1, repetition_penalty: 0"), HasSubstr("repetition_penalty must be"));
  EXPECT_THAT(error("prompts: [a], interval: 1, stop_strings: [a, '']"), HasSubstr("stop_strings must have"));
  EXPECT_THAT(error("prompts: [a], interval: 1, system: x"), HasSubstr("generate.system: needs chat_template"));
  EXPECT_THAT(error("prompts: [a], interval: 1, max_new_token: 2"), HasSubstr("(did you mean `max_new_tokens`?)"));
}

TEST_F(JobCallbacksTest, ValuesOutOfRangeAreNamedWithWhatIsAllowed) {
  const struct {
    const char *name, *keys, *message;
  } kCases[] = {
      {"speed_monitor", "window_size: 0", "speed_monitor.window_size: must be at least 1, got 0"},
      {"speed_monitor", "time_unit: weeks", "`weeks` is not one of seconds, minutes, hours, days"},
      {"memory_monitor", "interval: 0", "interval: must be at least 1, got 0"},
      {"memory_monitor", "dist_aggregate_batch_interval: 0", "aggregate_batch_interval: must be at least 1, got 0"},
      {"memory_monitor", "dist_aggregate_interval: 5", "(did you mean `dist_aggregate_batch_interval`?)"},
      {"memory_monitor", "memory_keys: {active_bytes.all.curent: a}", "did you mean `active_bytes.all.current`?"},
      {"runtime_estimator", "time_unit: weeks", "`weeks` is not one of seconds, minutes, hours, days"},
      {"activation_monitor", "interval: 0ba", "must be at least one batch (ba) or epoch (ep), got 0ba"},
      {"log_diffusion_images", "sampler: dpm", "did you mean `ddpm`?"},
      {"log_diffusion_images", "negative_prompt: a", "log_diffusion_images.negative_prompt: needs prompts"},
      {"log_diffusion_images", "prompts: [a], conditions: b", "conditions: cannot be combined with prompts"},
      {"log_diffusion_images", "eta: 2", "log_diffusion_images.eta: must be at most 1, got 2"},
      {"image_visualizer", "interval: 10sp", "must be at least one batch (ba) or epoch (ep), got 10sp"},
      {"image_visualizer", "mode: segmentatin", "did you mean `segmentation`?"},
      {"memory_snapshot", "interval: soon", "memory_snapshot.interval: "},
      {"optimizer_monitor", "batch_log_interval: -1", "batch_log_interval: must be at least 1, got -1"},
      {"runtime_estimator", "skip_batches: -1", "must be at least 0, got -1"},
      {"system_metrics_monitor", "seconds: -1", "must be at least 0, got -1"},
      {"throttle", "seconds: 3601", "must be at most 3600, got 3601"},
      {"mlperf", "division: opened", "did you mean `open`?"},
      {"mlperf", "status: home", "`home` is not one of onprem, cloud, preview"},
      {"export_for_inference", "save_format: onxx", "did you mean `onnx`?"},
      {"fail_at", "how: explode", "`explode` is not one of kill, abort, exit, throw, hang"},
      {"early_stopper", "monitor: MulticlassAccuracy", "say whose: metrics/eval/MulticlassAccuracy"},
      {"early_stopper", "monitor: a/b, min_delta: -1", "min_delta: must be at least 0, got -1"},
      {"early_stopper", "monitor: a/b, comp: best", "`best` is not one of auto, less, lt, greater, gt"},
      {"load_checkpoint", "load_path: x, event: fit_stat", "did you mean `fit_start`?"},
  };
  for (const auto& c : kCases) EXPECT_THAT(KeyError(c.name, c.keys), HasSubstr(c.message)) << c.name << " " << c.keys;
}

TEST_F(JobCallbacksTest, UnknownNamesHaveTheNearestAndPluginsNamesComeAfter) {
  const std::string error = Error("{callbacks: {speed_monitr: {window: 3}}}");
  EXPECT_THAT(error, HasSubstr("callbacks.speed_monitr: `speed_monitr` is not one of the 24 names that docs/"));
  EXPECT_THAT(error, HasSubstr("(did you mean `speed_monitor`?)"));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 0) << "its keys are errors, too: " << error;

  PluginTables plugins;
  plugins.callbacks["my_monitor"] = {"libmine.so", [](PluginConfig& config) -> PluginCallbackFactory {
                                       const auto seconds = static_cast<double>(config.Int("pause", 7));
                                       return [=] {
                                         return std::make_unique<Throttle>(Throttle::Options{absl::Seconds(seconds)});
                                       };
                                     }};
  const auto made = Made("{callbacks: [{my_monitor: {pause: 1}}, lr_monitor, my_monitor]}", plugins);
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(made[0]->name(), "Throttle");
  EXPECT_EQ(made[1]->name(), "LRMonitor");
  EXPECT_THAT(Error("{callbacks: {my_monitr: }}", plugins), HasSubstr("(did you mean `my_monitor`?)"));
  EXPECT_THAT(Error("{callbacks: {my_monitor: {pase: 1}}}", plugins),
              HasSubstr("my_monitor.pase: unknown key (did you mean `pause`?)"));
}

TEST_F(JobCallbacksTest, AListMayHaveANameTwiceAndWhatIsNoNameIsSaidOnce) {
  EXPECT_EQ(Made("{callbacks: [{memory_monitor: {interval: 2}}, memory_monitor]}").size(), 2u);
  EXPECT_TRUE(Made("{}").empty());
  EXPECT_TRUE(Made("{callbacks: }").empty());
  const std::string error = ErrorOf("{callbacks: 7}", [](ConfigMap& root) {
    ReadCallbacks(root, {}), ReadCheckpointSavers(root, "r"), ReadFatalWrite(root);
  });
  EXPECT_EQ(error, "job.yaml:1:13: callbacks: expected a map, got `7`");
}

TEST_F(JobCallbacksTest, MonitorsMeasureWhenTheyAreTold) {
  const auto memory = One("memory_monitor", "interval: 2");
  Step(*memory, absl::Seconds(1));
  EXPECT_TRUE(std::isnan(logger_.Last("memory/current_resident_mem")));
  Step(*memory, absl::Seconds(1));
  EXPECT_FALSE(std::isnan(logger_.Last("memory/current_resident_mem")));
  const auto speed = One("speed_monitor", "time_unit: minutes, window_size: 1");
  Fired(*speed, Event::kFitStart);
  Step(*speed, absl::Minutes(1));
  EXPECT_NEAR(logger_.Last("time/train"), 1 + 2.0 / 60, 1e-9);
  const auto estimator = One("runtime_estimator", "skip_batches: 0");
  Fired(*estimator, Event::kFitStart);
  Step(*estimator, absl::Seconds(1));
  EXPECT_FALSE(std::isnan(logger_.Last("time/remaining_estimate")));
}

TEST_F(JobCallbacksTest, TheMemoryMonitorGathersOverTheRanksOfTheJob) {
  LocalCommunicator communicator;
  place_.communicator = &communicator;
  state_.identity.world_size = 2;  // without the place's communicator this would be an error
  const auto memory = One("memory_monitor", "dist_aggregate_batch_interval: 2");
  Step(*memory, absl::Seconds(1));
  EXPECT_TRUE(std::isnan(logger_.Last("memory/current_resident_mem_max")));
  Step(*memory, absl::Seconds(1));
  EXPECT_FALSE(std::isnan(logger_.Last("memory/current_resident_mem_max")));
}

TEST_F(JobCallbacksTest, TheOptimizerMonitorsKeys) {
  UseModel();
  Record();
  state_.optimizer->groups()[0].params[0].mutable_grad() = torch::ones({2, 2});
  const auto monitor = One("optimizer_monitor", "batch_log_interval: 1, log_optimizer_metrics: false");
  Fired(*monitor, Event::kAfterTrainBatch);
  Step(*monitor, absl::Seconds(1));
  EXPECT_EQ(logger_.Last("l2_norm/grad/fc.weight"), 2);
  EXPECT_TRUE(std::isnan(logger_.Last("l2_norm/param/fc.weight")));
  const auto usual = One("optimizer_monitor");
  while (state_.timestamp.batch < 10) {
    EXPECT_TRUE(std::isnan(logger_.Last("l2_norm/param/fc.weight"))) << state_.timestamp.batch;
    Fired(*usual, Event::kAfterTrainBatch);
    Step(*usual, absl::Seconds(1));
  }
  EXPECT_EQ(logger_.Last("l2_norm/param/fc.weight"), 5);
}

TEST_F(JobCallbacksTest, SystemMetricsEverySecondOrAlways) {
  Record();
  const auto count = [&](const std::string& keys) {
    const auto monitor = One("system_metrics_monitor", keys);
    Fired(*monitor, Event::kFitStart);
    const int64_t before = history_.records;
    for (int i = 0; i < 3; ++i) {
      Fired(*monitor, Event::kBatchStart);
      logger_.Flush(state_.timestamp);
    }
    return history_.records - before;
  };
  EXPECT_EQ(count("seconds: 0"), 3);
  EXPECT_EQ(count("seconds: 3600"), 1);
}

TEST_F(JobCallbacksTest, StoppersStop) {
  const auto stops = [&](Callback& callback, double value) {
    logger_.Log("loss/train/total", value);
    Step(callback, absl::Seconds(1));
    return std::exchange(state_.requests.stop, false);
  };
  const auto threshold =
      One("threshold_stopper", "monitor: loss/train/total, threshold: 1, comp: gt, stop_on_batch: true");
  EXPECT_FALSE(stops(*threshold, 0.9));
  EXPECT_TRUE(stops(*threshold, 1.1));
  const auto early = One("early_stopper", "monitor: loss/train/total, patience: 1ba, min_delta: 0.5");
  EXPECT_FALSE(stops(*early, 2));
  EXPECT_FALSE(stops(*early, 1.4));
  EXPECT_TRUE(stops(*early, 1.2) || stops(*early, 1.1));
  // Composer's pair: a metric's name and a loader's label.
  const auto pair = One("threshold_stopper", "monitor: MulticlassAccuracy, dataloader_label: val, threshold: 0.5");
  logger_.Log("metrics/val/MulticlassAccuracy", 0.75);
  state_.evaluation.label = "val";
  Fired(*pair, Event::kEvalEnd);
  EXPECT_TRUE(state_.requests.stop);
}

TEST_F(JobCallbacksTest, ImagesByTheirKeys) {
  Record();
  state_.batch.inputs = torch::zeros({4, 2, 3, 1});
  const auto input = One("image_visualizer", "interval: 1ba, num_images: 2, channels_last: true");
  Fired(*input, Event::kBeforeForward);
  ASSERT_EQ(history_.images.size(), 1u);
  EXPECT_EQ(history_.images[0].second.size(), 2u);
  EXPECT_EQ(history_.images[0].second[0].width, 3);
  EXPECT_TRUE(One("image_visualizer", "mode: segmentation")->events().Has(Event::kBeforeLoss));
  EXPECT_FALSE(One("image_visualizer")->events().Has(Event::kBeforeLoss));
}

TEST_F(JobCallbacksTest, FilesGoWhereTheKeysSay) {
  UseModel();
  facts_.model_json = R"({"name":"linear"})";
  Fired(*One("export_for_inference", absl::StrCat("save_path: ", dir_.Path("ex"))), Event::kFitEnd);
  EXPECT_THAT(ReadFile(dir_.Path("ex/config.json")).value(), HasSubstr("linear"));
  Fired(*One("export_for_inference"), Event::kFitEnd);
  EXPECT_TRUE(PathExists(dir_.Path("export/model.safetensors")));
  const auto snapshot =
      One("memory_snapshot",
          absl::StrCat("skip_batches: 0, interval: 1ba, filename: 'of{rank}', folder: ", dir_.Path("mem")));
  Fired(*snapshot, Event::kBatchStart);
  Step(*snapshot, absl::Seconds(1));
  EXPECT_THAT(ListDir(dir_.Path("mem")).value(), ElementsAre("of0.pickle"));
  EXPECT_TRUE(One("oom_observer", "record_history: true")->events().Has(Event::kFitStart));
  EXPECT_FALSE(One("oom_observer")->events().Has(Event::kFitStart));
}

TEST_F(JobCallbacksTest, MLPerfKnowsTheJobAndItsPlace) {
  UseModel();
  facts_.global_batch_size = 48, facts_.train_samples = 960, facts_.eval_samples = 96;
  place_.generation = 2;  // may replace the result of an earlier attempt of this run
  const std::string keys = absl::StrCat(
      "index: 2, benchmark: bert, division: closed, submitter: me, system_name: box, "
      "status: cloud, hyperparameters: {lars_epsilon: 0.5}, root_folder: ",
      dir_.Path("ml"));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto callback = One("mlperf", keys);
    Fired(*callback, Event::kInit);
    Fired(*callback, Event::kFitStart);
  }
  const std::string result = ReadFile(dir_.Path("ml/results/box/bert/result_2.txt")).value();
  for (const char* part : {R"("key":"global_batch_size","value":48)", R"("key":"train_samples","value":960)",
                           R"("key":"eval_samples","value":96)", R"("key":"submission_org","value":"me")",
                           R"("key":"submission_division","value":"closed")",
                           R"("key":"submission_status","value":"cloud")", R"("key":"lars_epsilon","value":0.5)"})
    EXPECT_THAT(result, HasSubstr(part));
  place_.generation = 1;
  const auto again = One("mlperf", keys);
  Fired(*again, Event::kInit);
  EXPECT_EQ(Fire(*again, Event::kFitStart).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(JobCallbacksTest, AFailureIsRehearsedInTheFirstGenerationUnlessAskedOtherwise) {
  const auto fails = [&](const std::string& keys, int64_t generation) {
    place_.generation = generation;
    return !Fire(*One("fail_at", keys), Event::kBatchEnd).ok();
  };
  state_.timestamp.batch = 2;
  EXPECT_TRUE(fails("batch: 2, how: throw", 1));
  EXPECT_FALSE(fails("batch: 2, how: throw", 2));
  EXPECT_TRUE(fails("batch: 2, how: throw, every_generation: true", 2));
  EXPECT_FALSE(fails("batch: 3, how: throw", 1));
  EXPECT_FALSE(fails("batch: 2, how: throw, rank: 1", 1));
  EXPECT_FALSE(fails("batch: 2, how: throw, when: save", 1));
}

TEST_F(JobCallbacksTest, AFailureInASaveIsAPartOfAPath) {
  const auto part = [&](const std::string& yaml) {
    FatalWrite fatal;
    EXPECT_EQ(ErrorOf(yaml, [&](ConfigMap& root) { fatal = ReadFatalWrite(root), ReadCallbacks(root, {}); }), "");
    return fatal(place_);
  };
  const std::string yaml = "{callbacks: {fail_at: {when: save, batch: 20, rank: 1}}}";
  place_.rank = 1;
  EXPECT_EQ(part(yaml), "-ba20/");
  EXPECT_EQ(part("{callbacks: {fail_at: {rank: 1}}}"), std::nullopt);
  place_.generation = 2;
  EXPECT_EQ(part(yaml), std::nullopt);
  place_ = JobPlace();
  EXPECT_EQ(part(yaml), std::nullopt);
}

}  // namespace
}  // namespace composer
