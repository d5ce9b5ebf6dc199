// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/progress_bar.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

constexpr absl::Duration kRedrawInterval = absl::Milliseconds(100);
constexpr absl::string_view kEraseToEndOfLine = "\x1b[K";

// Returns true for one bar for the whole run, in the unit of max_duration, and false for one per epoch.
bool OneBarForTheRun(const State& state) {
  const TimeUnit unit = state.max_duration.unit();
  return unit == TimeUnit::kBatch || unit == TimeUnit::kSample || unit == TimeUnit::kToken;
}

std::string Title(absl::string_view label, const State& state) {
  if (OneBarForTheRun(state)) return absl::StrFormat("%-7s Batch %d", label, state.timestamp.batch);
  // This is the epoch of the last batch, even when the timestamp is already in the next one.
  return absl::StrFormat("%-7s Epoch %d", label, state.clock.previous_timestamp.epoch);
}

// The terminal is opened only to query its width. It must not become the controlling terminal of this process.
int OpenTerminal(const std::string& path) {
  return path.empty() ? -1 : open(path.c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

}  // namespace

ProgressBar::ProgressBar(const Options& options, const Clock& clock)
    : options_(options), terminal_fd_(OpenTerminal(options.terminal)), clock_(clock) {}

ProgressBar::~ProgressBar() {
  EndLine();
  if (terminal_fd_ >= 0) close(terminal_fd_);
}

absl::Status ProgressBar::Close(State& state, Logger& logger) {
  EndLine();
  return absl::OkStatus();
}

EventSet ProgressBar::events() const {
  return {Event::kFitStart,  Event::kBatchEnd,     Event::kEpochEnd, Event::kFitEnd,
          Event::kEvalStart, Event::kEvalBatchEnd, Event::kEvalEnd};
}

absl::Status ProgressBar::Run(Event event, State& state, Logger& logger) {
  switch (event) {
    case Event::kFitStart:
      StartTrainBar(state);
      break;
    case Event::kBatchEnd:
      OnBatchEnd(state, logger);
      break;
    case Event::kEpochEnd:
      OnEpochEnd(state);
      break;
    case Event::kFitEnd:
      OnFitEnd(state, logger);
      break;
    case Event::kEvalStart:
      StartEvalBar(state);
      break;
    case Event::kEvalBatchEnd:
      if (Due()) Draw(EvalLine(state), eval_);
      break;
    case Event::kEvalEnd:
      EndEvalBar(state, logger);
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

void ProgressBar::StartTrainBar(const State& state) {
  train_ = Bar{clock_.Now(), TrainLine(state).done};
  next_draw_ = options_.in_place ? train_.start : train_.start + options_.plain_interval;
}

void ProgressBar::OnBatchEnd(const State& state, const Logger& logger) {
  const bool ends_epoch = state.timestamp.batch_in_epoch == state.clock.batches_per_epoch;
  if (!ends_epoch && !Due()) return;
  ProgressLine line = TrainLine(state);
  AddMetrics("train", logger, line);
  Draw(std::move(line), train_);
}

// A run that ends between two drawings still shows where it ended.
void ProgressBar::OnFitEnd(const State& state, const Logger& logger) {
  ProgressLine line = TrainLine(state);
  if (line.done > 0 && line.done != train_.drawn) {
    AddMetrics("train", logger, line);
    Draw(std::move(line), train_);
  }
  EndLine();
}

void ProgressBar::OnEpochEnd(const State& state) {
  if (OneBarForTheRun(state)) return;
  EndLine();
  StartTrainBar(state);
}

void ProgressBar::StartEvalBar(const State& state) {
  EndLine();
  eval_ = Bar{clock_.Now()};
  if (options_.in_place) next_draw_ = eval_.start;
}

void ProgressBar::EndEvalBar(const State& state, const Logger& logger) {
  ProgressLine line = EvalLine(state);
  AddMetrics(state.evaluation.label, logger, line);
  Draw(std::move(line), eval_);
  EndLine();
  train_.start += clock_.Now() - eval_.start;
}

ProgressLine ProgressBar::TrainLine(const State& state) const {
  ProgressLine line;
  if (OneBarForTheRun(state)) {
    line.title = "train";
    line.unit = TimeUnitName(state.max_duration.unit());
    line.done = state.timestamp.Get(state.max_duration.unit());
    line.total = state.max_duration.count();
  } else {
    line.title = absl::StrFormat("%-7s Epoch %d", "train", state.timestamp.epoch);
    line.done = state.timestamp.batch_in_epoch;
    line.total = state.clock.batches_per_epoch;
  }
  return line;
}

ProgressLine ProgressBar::EvalLine(const State& state) const {
  ProgressLine line;
  line.title = Title(state.evaluation.label, state);
  line.done = state.evaluation.timestamp.batch;
  line.total = state.evaluation.batches;
  return line;
}

void ProgressBar::AddMetrics(const std::string& label, const Logger& logger, ProgressLine& line) const {
  const auto add = [&](const std::string& name, const std::string& shown) {
    if (logger.WasLogged(name)) line.metrics.emplace_back(shown, logger.Last(name));
  };
  if (label == "train") add("loss/train/total", "loss");
  for (const auto& [metric, shown] : options_.metrics) add(absl::StrCat("metrics/", label, "/", metric), shown);
}

void ProgressBar::Draw(ProgressLine line, Bar& bar) {
  const absl::Time now = clock_.Now();
  line.done_before = bar.done_before;
  line.elapsed = now - bar.start;
  bar.drawn = line.done;
  next_draw_ = now + (options_.in_place ? kRedrawInterval : options_.plain_interval);
  const std::string text = options_.in_place ? absl::StrCat("\r", RenderBar(line, Columns()), kEraseToEndOfLine)
                                             : absl::StrCat(RenderPlain(line), "\n");
  line_open_ = options_.in_place;
  if (write(options_.fd, text.data(), text.size()) < 0) return;
}

void ProgressBar::EndLine() {
  if (!line_open_) return;
  line_open_ = false;
  if (write(options_.fd, "\n", 1) < 0) return;
}

int ProgressBar::Columns() const {
  int columns = options_.columns;
  for (const int fd : {options_.fd, terminal_fd_}) {
    winsize size{};
    if (fd < 0 || ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) continue;
    columns = size.ws_col;
    break;
  }
  return columns - 1;  // some terminals wrap as soon as the last column is written
}

}  // namespace composer
