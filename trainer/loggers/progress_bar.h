// Shows the progress of a run to people: a bar that is redrawn in place on a terminal, plain lines elsewhere.
//
//   train   Epoch 0:  45%|████▌     | 210/469 [00:12<00:15, 17.1ba/s, loss=0.412, acc=0.85]
//   eval    Epoch 0: 40ba [00:01, 38.2ba/s, acc=0.87]
//
// Runs measured in epochs have a bar per epoch; runs measured in batches, samples or tokens have one bar in that unit.
// This is a callback because only callbacks see the state at every event; values come from Logger::Last.
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

// Must be added on rank 0 only. A step costs one clock read; text is made at most 10 times a second. Failures to write
// are ignored.
class ProgressBar final : public Callback {
 public:
  struct Options {
    int fd = 2;
    bool in_place = false;  // for a terminal that understands "\r" (not with TERM=dumb); no colours are used
    // The width is queried at each drawing, so that a window may change: from fd or, where fd is a pipe to somebody's
    // terminal, from the device `terminal` ("/dev/pts/3"; "" means none). Otherwise it is `columns`.
    std::string terminal;
    int columns = 80;
    absl::Duration plain_interval = absl::Seconds(10);  // between plain lines of one epoch
    // Metrics to show besides loss, and their short names: metrics/<label>/<first>.
    std::vector<std::pair<std::string, std::string>> metrics = {{"MulticlassAccuracy", "acc"},
                                                                {"CrossEntropy", "ce"},
                                                                {"LanguageCrossEntropy", "ce"},
                                                                {"LanguagePerplexity", "ppl"}};
  };
  // clock must outlive the bar.
  ProgressBar(const Options& options, const Clock& clock);
  ~ProgressBar() override;  // ends a line that is still open
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  std::string name() const override { return "ProgressBar"; }
  EventSet events() const override;
  absl::Status Run(Event event, State& state, Logger& logger) override;
  // Ends the line, so that output after the run begins on its own line.
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
  const int terminal_fd_;  // -1 means none
  const Clock& clock_;
  Bar train_, eval_;
  absl::Time next_draw_;
  bool line_open_ = false;
};

}  // namespace composer
