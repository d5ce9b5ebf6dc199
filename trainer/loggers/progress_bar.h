// The progress of a run for people: a bar that is redrawn in place on a terminal, plain lines elsewhere.
//
//   train   Epoch 0:  45%|████▌     | 210/469 [00:12<00:15, 17.1ba/s, loss=0.412, acc=0.85]
//   eval    Epoch 0: 40ba [00:01, 38.2ba/s, acc=0.87]
//
// Runs of so many epochs have a bar an epoch; runs measured in batches, samples or tokens have one bar in that unit.
// A callback, because only it sees the state at every event; numbers come from Logger::Last.
// Source: mosaicml composer/loggers/progress_bar_logger.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "trainer/core/callback.h"
#include "trainer/loggers/progress_line.h"

namespace composer {

// To be added on rank 0 only. A step costs one look at the clock; text is made at most 10 times a second. Failures to
// write are ignored.
class ProgressBar final : public Callback {
 public:
  struct Options {
    int fd = 2;
    bool in_place = false;  // a terminal that understands "\r": not with TERM=dumb. No colours are used.
    // The width is asked of fd at each drawing, so that a window may change; where fd is a pipe to somebody's terminal,
    // of the device `terminal` ("/dev/pts/3"; "": none); else it is `columns`.
    std::string terminal;
    int columns = 80;
    absl::Duration plain_interval = absl::Seconds(10);  // between plain lines of one epoch
    // Metrics to show and their short names, besides loss: metrics/<label>/<first>.
    std::vector<std::pair<std::string, std::string>> metrics = {{"MulticlassAccuracy", "acc"},
                                                                {"CrossEntropy", "ce"},
                                                                {"LanguageCrossEntropy", "ce"},
                                                                {"LanguagePerplexity", "ppl"}};
  };
  // clock outlives the bar.
  ProgressBar(const Options& options, const Clock& clock);
  ~ProgressBar() override;  // ends a line that is still open
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  std::string name() const override { return "ProgressBar"; }
  EventSet events() const override;
  absl::Status Run(Event event, State& state, Logger& logger) override;
  // What is said after the run begins a line of its own.
  absl::Status Close(State& state, Logger& logger) override;

 private:
  struct Bar {
    absl::Time start;
    int64_t done_before = 0;
    int64_t drawn = -1;  // `done` of the last drawing
  };
  void StartTrainBar(const State& state);
  void OnBatchEnd(const State& state, const Logger& logger);
  void OnEpochEnd(const State& state);
  void OnFitEnd(const State& state, const Logger& logger);
  void StartEvalBar(const State& state);
  void EndEvalBar(const State& state, const Logger& logger);
  ProgressLine TrainLine(const State& state) const;
  ProgressLine EvalLine(const State& state) const;
  void AddMetrics(const std::string& label, const Logger& logger, ProgressLine& line) const;
  bool Due() const { return clock_.Now() >= next_draw_; }
  void Draw(ProgressLine line, Bar& bar);
  void EndLine();
  int Columns() const;

  Options options_;
  const int terminal_fd_;  // -1: none
  const Clock& clock_;
  Bar train_, eval_;
  absl::Time next_draw_;
  bool line_open_ = false;
};

}  // namespace composer
