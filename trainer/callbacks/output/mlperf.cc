// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/mlperf.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/log.h"
#include "base/saved_numbers.h"
#include "base/status_macros.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

// Returns MLPerf's name of an optimizer. Source: mlperf_logging/mllog/constants.py.
std::string OptimizerName(const std::string& name) {
  static constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"DecoupledSGDW", "sgd"}, {"SGD", "sgd"}, {"DecoupledAdamW", "adamw"}, {"AdamW", "adamw"}, {"Adam", "adam"}};
  for (const auto& [ours, theirs] : kNames) {
    if (name == ours) return std::string(theirs);
  }
  return name;
}

// Converts numbers to JSON numbers.
nlohmann::ordered_json SettingJson(const std::string& text) {
  if (int64_t whole = 0; absl::SimpleAtoi(text, &whole)) return whole;
  if (double number = 0; absl::SimpleAtod(text, &number)) return number;
  return text;
}

absl::Status ClearCache(const std::string& command) {
  const int status = std::system(command.c_str());
  if (status == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cache_clear_cmd: `", command, "` failed with status ", status));
}

}  // namespace

MLPerfCallback::MLPerfCallback(Options options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      metric_(MonitoredName(options_.metric_name, options_.metric_label), options_.better) {}

EventSet MLPerfCallback::events() const {
  return {Event::kInit, Event::kFitStart, Event::kEpochStart, Event::kEpochEnd, Event::kEvalStart, Event::kEvalEnd};
}

absl::Status MLPerfCallback::Run(Event event, State& state, Logger& logger) {
  if (event == Event::kInit) return Init(state);
  if (event == Event::kFitStart) return StartRun(state);
  if (event == Event::kEvalEnd) return EndEval(state, logger);
  if (event == Event::kEvalStart) return StartEval(state);
  return OnEpoch(event, state);
}

absl::Status MLPerfCallback::Init(State& state) {
  if (options_.system_name.empty()) {
    const auto description = ParseOrderedJson(MlperfSystemJson(options_, state));
    options_.system_name = description["system_name"].get<std::string>();
  }
  if (!options_.cache_clear_cmd.empty()) {
    if (options_.local_rank == 0) RETURN_IF_ERROR(ClearCache(options_.cache_clear_cmd));
    RETURN_IF_ERROR(Line(MlperfEvent::kPointInTime, "cache_clear", true));
  } else if (state.identity.rank == 0) {
    LOG(WARNING) << "mlperf: without cache_clear_cmd the result is not a valid submission";
  }
  RETURN_IF_ERROR(Line(MlperfEvent::kIntervalStart, "init_start"));
  RETURN_IF_ERROR(Line(MlperfEvent::kPointInTime, "submission_benchmark", options_.benchmark));
  RETURN_IF_ERROR(Line(MlperfEvent::kPointInTime, "submission_division", options_.division));
  RETURN_IF_ERROR(Line(MlperfEvent::kPointInTime, "submission_org", options_.submitter));
  RETURN_IF_ERROR(Line(MlperfEvent::kPointInTime, "submission_platform", options_.system_name));
  return Line(MlperfEvent::kPointInTime, "submission_status", options_.status);
}

absl::Status MLPerfCallback::StartRun(const State& state) {
  by_epoch_ = state.max_duration.unit() == TimeUnit::kEpoch;
  if (state.identity.rank != 0) {
    held_.clear();
    stopped_ = true;  // nothing is held for a file that is never opened
    return absl::OkStatus();
  }
  const std::string before = std::exchange(held_, "");
  RETURN_IF_ERROR(OpenResult(state));
  if (state.timestamp.batch > 0) return absl::OkStatus();
  RETURN_IF_ERROR(file_->Append(before));
  RETURN_IF_ERROR(WriteSettings(state));
  RETURN_IF_ERROR(Line(MlperfEvent::kIntervalEnd, "init_stop"));
  RETURN_IF_ERROR(Line(MlperfEvent::kIntervalStart, "run_start"));
  return by_epoch_ ? absl::OkStatus() : Line(MlperfEvent::kIntervalStart, "block_start", nullptr, Now(state));
}

absl::Status MLPerfCallback::OpenResult(const State& state) {
  if (options_.root_folder.empty() && state.identity.run_folder.empty())
    return absl::FailedPreconditionError("mlperf needs a root_folder or a run_folder to write to");
  const std::string root =
      options_.root_folder.empty() ? JoinPath(state.identity.run_folder, "mlperf") : options_.root_folder;
  const std::string systems = JoinPath(root, "systems");
  const std::string results = JoinPath(root, absl::StrCat("results/", options_.system_name, "/", options_.benchmark));
  RETURN_IF_ERROR(MakeDirs(systems));
  RETURN_IF_ERROR(MakeDirs(results));
  RETURN_IF_ERROR(AtomicWriteFile(JoinPath(systems, absl::StrCat(options_.system_name, ".json")),
                                  MlperfSystemJson(options_, state)));
  const std::string path = JoinPath(results, absl::StrCat("result_", options_.index, ".txt"));
  if (state.timestamp.batch == 0 && PathExists(path)) {
    if (!options_.may_replace)
      return absl::AlreadyExistsError(absl::StrCat("mlperf: ", path, " is there already; give another index"));
    RETURN_IF_ERROR(RemoveFile(path));
  }
  ASSIGN_OR_RETURN(LineFile file, LineFile::Open(path));
  file_.emplace(std::move(file));
  return absl::OkStatus();
}

absl::Status MLPerfCallback::WriteSettings(const State& state) {
  const int64_t device_batch = (options_.global_batch_size + state.identity.data_ranks - 1) / state.identity.data_ranks;
  const int64_t microbatch =
      state.settings.device_train_microbatch_size > 0 ? state.settings.device_train_microbatch_size : device_batch;
  std::vector<std::pair<std::string, Json>> settings = {
      {"seed", state.identity.seed},
      {"global_batch_size", options_.global_batch_size},
      {"gradient_accumulation_steps",
       microbatch > 0 ? std::max<int64_t>(1, (device_batch + microbatch - 1) / microbatch) : 1},
      {"train_samples", options_.train_samples},
      {"eval_samples", options_.eval_samples}};
  if (state.optimizer != nullptr && !state.optimizer->groups().empty()) {
    const ParamGroup& group = state.optimizer->groups()[0];
    settings.emplace_back("opt_name", OptimizerName(state.optimizer->name()));
    settings.emplace_back("opt_base_learning_rate", group.initial_lr);
    settings.emplace_back("opt_weight_decay", group.weight_decay);
  }
  for (const auto& [name, value] : options_.hyperparameters) {
    const auto known =
        std::find_if(settings.begin(), settings.end(), [&](const auto& setting) { return setting.first == name; });
    if (known == settings.end()) {
      settings.emplace_back(name, SettingJson(value));
    } else {
      known->second = SettingJson(value);
    }
  }
  for (const auto& [key, value] : settings) RETURN_IF_ERROR(Line(MlperfEvent::kPointInTime, key, value));
  return absl::OkStatus();
}

absl::Status MLPerfCallback::OnEpoch(Event event, const State& state) {
  if (!by_epoch_) return absl::OkStatus();
  if (event == Event::kEpochStart) {
    const int64_t epoch = state.timestamp.epoch + 1;
    RETURN_IF_ERROR(
        Line(MlperfEvent::kIntervalStart, "block_start", nullptr, {{"first_epoch_num", epoch}, {"epoch_count", 1}}));
    return Line(MlperfEvent::kIntervalStart, "epoch_start", nullptr, {{"epoch_num", epoch}});
  }
  const int64_t epoch = state.timestamp.epoch;  // already incremented
  RETURN_IF_ERROR(Line(MlperfEvent::kIntervalEnd, "epoch_stop", nullptr, {{"epoch_num", epoch}}));
  return Line(MlperfEvent::kIntervalEnd, "block_stop", nullptr, {{"first_epoch_num", epoch}, {"epoch_count", 1}});
}

absl::Status MLPerfCallback::StartEval(const State& state) {
  if (state.evaluation.label != options_.metric_label) return absl::OkStatus();
  if (!by_epoch_) RETURN_IF_ERROR(Line(MlperfEvent::kIntervalEnd, "block_stop", nullptr, Now(state)));
  return Line(MlperfEvent::kIntervalStart, "eval_start", nullptr, Now(state));
}

absl::Status MLPerfCallback::EndEval(State& state, const Logger& logger) {
  if (state.evaluation.label != options_.metric_label) return absl::OkStatus();
  const double value = logger.Last(metric_.name());
  if (value != value)
    return absl::InvalidArgumentError(absl::StrCat("mlperf: the evaluation has no metric ", metric_.name()));
  RETURN_IF_ERROR(Line(MlperfEvent::kIntervalEnd, "eval_stop", nullptr, Now(state)));
  RETURN_IF_ERROR(Line(MlperfEvent::kPointInTime, "eval_accuracy", value, Now(state)));
  const bool reached = value == options_.target || metric_.IsBetter(value, options_.target, /*margin=*/0);
  if (reached && options_.exit_at_target) state.StopTraining();
  if (!reached) {
    return by_epoch_ ? absl::OkStatus() : Line(MlperfEvent::kIntervalStart, "block_start", nullptr, Now(state));
  }
  Json metadata = Now(state);
  metadata["status"] = "success";
  RETURN_IF_ERROR(Line(MlperfEvent::kIntervalEnd, "run_stop", nullptr, metadata));
  stopped_ = true;
  return absl::OkStatus();
}

absl::Status MLPerfCallback::Close(State& state, Logger& logger) {
  if (!file_.has_value()) return absl::OkStatus();
  Json metadata = Now(state);
  metadata["status"] = "aborted";
  RETURN_IF_ERROR(Line(MlperfEvent::kIntervalEnd, "run_stop", nullptr, metadata));
  stopped_ = true;
  return file_->Sync();
}

absl::Status MLPerfCallback::Line(MlperfEvent event, absl::string_view key, const Json& value, const Json& metadata,
                                  const std::source_location& where) {
  if (stopped_) return absl::OkStatus();
  const std::string line = MlperfLine(clock_.Now(), event, key, value, metadata, where);
  if (file_.has_value()) return file_->Append(line);
  held_ += line;
  return absl::OkStatus();
}

MLPerfCallback::Json MLPerfCallback::Now(const State& state) const {
  if (!by_epoch_) return {{"samples_count", state.timestamp.sample}};
  const bool between_epochs = state.timestamp.batch_in_epoch == 0 && state.timestamp.epoch > 0;
  return {{"epoch_num", state.timestamp.epoch + (between_epochs ? 0 : 1)}};
}

std::string MLPerfCallback::SaveState() const { return SaveNumbers({{"stopped", stopped_ ? 1 : 0}}); }

absl::Status MLPerfCallback::LoadState(absl::string_view json) {
  double stopped = 0;
  RETURN_IF_ERROR(LoadNumbers(json, {{"stopped", &stopped}}));
  stopped_ = stopped != 0;
  return absl::OkStatus();
}

}  // namespace composer
