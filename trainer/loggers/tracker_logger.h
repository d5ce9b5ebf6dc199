// Keeps a run's records in an experiment tracker (MLflow, Weights & Biases, Comet, Slack). It only wakes a thread that
// reads metrics.jsonl and sends (tracking/tracker.h), so logging costs one store, and neither a slow nor an absent
// server delays or ends training. Needs metrics_file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "tracking/tracker_thread.h"
#include "trainer/core/logger.h"

namespace composer {

class TrackerLogger final : public LoggerDestination {
 public:
  // Of the files of a run, what the tracker keeps: nothing, pictures and tables, or everything.
  enum class Files { kNone, kMedia, kAll };
  struct Options {
    std::string name;  // "MLFlowLogger", for messages
    std::string run_folder;
    Files files = Files::kNone;
    absl::Duration interval = absl::Seconds(2);              // between two looks at metrics.jsonl
    absl::Duration flush_timeout = absl::Minutes(1);         // of Close
    absl::Duration hasty_flush_timeout = absl::Seconds(15);  // when in_haste returns true: clouds give 30 s and more
    std::function<bool()> in_haste;                          // whether the machine is about to be taken; empty: no
  };
  // `given_up` is that of the tracker's requests.
  TrackerLogger(std::unique_ptr<Tracker> tracker, std::shared_ptr<std::atomic<bool>> given_up, Options options)
      : tracker_(std::move(tracker)), given_up_(std::move(given_up)), options_(std::move(options)) {}

  std::string name() const override { return options_.name; }
  Files files() const { return options_.files; }
  absl::Status Start(const RunStart& start) override;
  absl::Status Write(const MetricRecord& record) override;
  absl::Status WriteHyperparameters(const Hyperparameters& hyperparameters) override;
  absl::Status Close() override;

 private:
  void Run();

  std::unique_ptr<Tracker> tracker_;  // until the thread has it
  const std::shared_ptr<std::atomic<bool>> given_up_;
  const Options options_;
  std::unique_ptr<TrackerThread> thread_;  // from the first record on, when metrics.jsonl was cut
};

}  // namespace composer
