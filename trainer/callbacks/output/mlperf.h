// Writes the result file of an MLPerf Training submission and the description of its system:
//
//   {root_folder}/results/{system_name}/{benchmark}/result_{index}.txt      lines of mlperf_line.h
//   {root_folder}/systems/{system_name}.json                                to be checked and completed by hand
//
// The lines come in the order that the compliance checker requires (its training_5.1.0/common.yaml,
// closed_common.yaml):
//   INIT        cache_clear (when cache_clear_cmd ran), init_start, submission_{benchmark,division,org,platform,status}
//   FIT_START   seed, global_batch_size, gradient_accumulation_steps, train_samples, eval_samples, opt_name,
//               opt_base_learning_rate, opt_weight_decay, `hyperparameters` (whatever else the benchmark asks for; they
//               override those before), init_stop, run_start
//   epochs      block_start, epoch_start; epoch_stop, block_stop
//   evaluation  eval_start, eval_stop, eval_accuracy
//   the first evaluation that reaches the target: run_stop {"status": "success"}, and nothing after it
//   the end without that: run_stop {"status": "aborted"}
// A run whose max_duration is in epochs counts them (epoch_num, from 1). Others count samples (samples_count), and
// their blocks extend from one evaluation to the next.
// A resumed run continues its file, but is not a valid submission.
// Source: mosaicml composer/callbacks/mlperf.py (open division only; all events as points in time, and on stdout too);
// https://github.com/mlcommons/logging.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/line_file.h"
#include "trainer/callbacks/output/mlperf_line.h"
#include "trainer/callbacks/stops/monitored_metric.h"
#include "trainer/core/callback.h"
#include "trainer/core/logger.h"

namespace composer {

// Rank 0 writes. Errors stop the run, because a result with holes is worthless.
class MLPerfCallback final : public Callback {
 public:
  struct Options {
    std::string root_folder;  // "" means {run_folder}/mlperf
    int64_t index = 0;
    std::string benchmark = "resnet";
    double target = 0.759;
    std::string metric_name = "MulticlassAccuracy";
    std::string metric_label = "eval";
    Better better = Better::kByName;
    std::string division = "open";  // open, closed
    std::string submitter = "composer";
    std::string system_name;        // "" means {world_size}x{device}_composer
    std::string status = "onprem";  // onprem, cloud, preview
    std::string cache_clear_cmd;    // run by a shell on the first rank of each node; "" means none (an invalid result)
    bool exit_at_target = false;
    std::string host_processors_per_node;
    Hyperparameters hyperparameters;
    // These values come from the job.
    int64_t global_batch_size = 0, train_samples = 0, eval_samples = 0;
    int local_rank = 0, local_world_size = 1;
    // A result of this name may be replaced, because an earlier attempt of the same run wrote it.
    bool may_replace = false;
  };
  explicit MLPerfCallback(Options options, const Clock& clock = RealClock::Get());

  std::string name() const override { return "MLPerfCallback"; }
  EventSet events() const override;
  absl::Status Run(Event event, State& state, Logger& logger) override;
  // Called at the end of the run, after the last evaluation. Writes run_stop unless it is already written.
  absl::Status Close(State& state, Logger& logger) override;
  std::string SaveState() const override;
  absl::Status LoadState(absl::string_view json) override;

 private:
  using Json = nlohmann::ordered_json;
  absl::Status Init(State& state);
  absl::Status StartRun(const State& state);
  absl::Status OpenResult(const State& state);
  absl::Status WriteSettings(const State& state);
  absl::Status OnEpoch(Event event, const State& state);
  absl::Status StartEval(const State& state);
  absl::Status EndEval(State& state, const Logger& logger);
  absl::Status Line(MlperfEvent event, absl::string_view key, const Json& value = nullptr,
                    const Json& metadata = Json::object(),
                    const std::source_location& where = std::source_location::current());
  // Returns {"epoch_num": 3} or {"samples_count": 4096}.
  Json Now(const State& state) const;

  Options options_;
  const Clock& clock_;
  MonitoredMetric metric_;
  std::string held_;  // lines from before the file is opened
  std::optional<LineFile> file_;
  bool by_epoch_ = true;
  bool stopped_ = false;  // run_stop is written
};

// Returns the system's description, best effort: what cannot be determined is "".
std::string MlperfSystemJson(const MLPerfCallback::Options& options, const State& state);

}  // namespace composer
