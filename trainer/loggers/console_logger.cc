// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/console_logger.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "trainer/core/state.h"
#include "trainer/loggers/value_text.h"

namespace composer {
namespace {

constexpr int kEvalPoints = 10;
constexpr absl::string_view kEraseLine = "\r\x1b[K";
const std::string kAsterisks(30, '*');

// Returns the unit's name in Composer: "epoch", "batch", ….
absl::string_view UnitWord(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::kIteration:
      return "iteration";
    case TimeUnit::kEpoch:
      return "epoch";
    case TimeUnit::kBatch:
      return "batch";
    case TimeUnit::kSample:
      return "sample";
    case TimeUnit::kToken:
      return "token";
    case TimeUnit::kDuration:
      return "duration";
    case TimeUnit::kSecond:
      return "second";
  }
  return "";
}

// Holds names with their latest text, in the order of their first appearance.
class Collected {
 public:
  void Set(absl::string_view name, std::string text) {
    for (auto& [known, its_text] : items_) {
      if (known != name) continue;
      its_text = std::move(text);
      return;
    }
    items_.emplace_back(std::string(name), std::move(text));
  }
  void Add(const MetricRecord& record) {
    for (const MetricValue& metric : record.metrics) Set(metric.name, ValueText(metric.value));
  }
  // Returns ":" and a line for each, or nothing, and forgets them.
  std::string Take(absl::string_view prefix) {
    std::string text = items_.empty() ? "" : ":";
    for (const auto& [name, value] : items_) absl::StrAppend(&text, "\n\t ", prefix, " ", name, ": ", value);
    items_.clear();
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> items_;
};

// The state that both halves share.
class Console {
 public:
  explicit Console(const ConsoleOptions& options) : options_(options) {}

  absl::Status Print(absl::string_view text) const {
    const std::string whole = absl::StrCat(options_.erase_line ? kEraseLine : "", text, "\n");
    for (absl::string_view rest = whole; !rest.empty();) {
      const ssize_t written = write(options_.fd, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus(errno, "cannot write to", "the console");
      rest.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  // Called by the callback.
  void StartTraining(const State& state) {
    max_duration_ = state.max_duration;
    batches_per_epoch_ = state.clock.batches_per_epoch;
  }
  absl::Status PrintHyperparameters() {
    const Hyperparameters settings = std::exchange(hyperparameters_, {});
    if (settings.empty()) return absl::OkStatus();
    std::string text = absl::StrCat(kAsterisks, "\nConfig:\n");
    for (const auto& [name, value] : settings) absl::StrAppend(&text, name, ": ", value, "\n");
    return Print(absl::StrCat(text, kAsterisks));
  }
  absl::Status EndEpoch(const Timestamp& now) {
    const bool due = last_printed_ == 0 || now.epoch % options_.interval.count() == 0;
    return options_.interval.unit() == TimeUnit::kEpoch && due ? PrintTrain(now) : absl::OkStatus();
  }
  absl::Status EndFit(const Timestamp& now) {
    return last_printed_ == now.batch && !has_table_ ? absl::OkStatus() : PrintTrain(now);
  }
  absl::Status EvalBatch(const State& state) {
    const int64_t done = state.evaluation.timestamp.batch + 1, total = state.evaluation.batches;
    // The number of a stream's batches is known at its end.
    if (total == 0 || done == total || !IsEvalPoint(done, total)) return absl::OkStatus();
    return Print(EvalProgress(done, total, state.evaluation.label));
  }
  void EndEval(const State& state) {
    const int64_t batches = state.evaluation.timestamp.batch;
    eval_end_ = EvalProgress(batches, batches, state.evaluation.label);
  }
  // An evaluation without metrics has no record.
  absl::Status FinishEval() {
    if (eval_end_.empty()) return absl::OkStatus();
    return Print(absl::StrCat(std::exchange(eval_end_, ""), eval_.Take("Eval")));
  }

  // Called by the destination.
  void Keep(const Hyperparameters& hyperparameters) { hyperparameters_ = hyperparameters; }
  absl::Status Add(const MetricRecord& record) {
    if (!eval_end_.empty()) {
      eval_.Add(record);
      return FinishEval();
    }
    train_.Add(record);
    const bool due = last_printed_ == 0 || record.timestamp.batch % options_.interval.count() == 0;
    if (options_.interval.unit() != TimeUnit::kBatch || !due || record.timestamp.batch == last_printed_)
      return absl::OkStatus();
    return PrintTrain(record.timestamp);
  }
  void AddTable(const TableRecord& table) {
    train_.Set(table.name, TableJson(table));
    has_table_ = true;
  }

 private:
  static bool IsEvalPoint(int64_t done, int64_t total) {
    return total <= kEvalPoints || done == 1 || done * kEvalPoints / total != (done - 1) * kEvalPoints / total;
  }
  static std::string EvalProgress(int64_t done, int64_t total, absl::string_view label) {
    return absl::StrCat("[Eval batch=", done, "/", total, "] Eval on ", label, " data");
  }

  std::string TrainProgress(const Timestamp& now) const {
    const TimeUnit unit = max_duration_.unit();
    if (unit != TimeUnit::kEpoch)
      return absl::StrCat("[", UnitWord(unit), "=", now.Get(unit), "/", max_duration_.count(), "]");
    int64_t epoch = now.epoch, batch = now.batch_in_epoch;
    if (batch == 0 && epoch > 0) --epoch, batch = batches_per_epoch_;  // the epoch that just ended
    return absl::StrCat("[epoch=", epoch + 1, "][batch=", batch, "/", batches_per_epoch_, "]");
  }

  absl::Status PrintTrain(const Timestamp& now) {
    last_printed_ = now.batch;
    has_table_ = false;
    Collected all;
    all.Set("time/epoch", absl::StrCat(now.epoch));
    all.Set("time/batch", absl::StrCat(now.batch));
    all.Set("time/sample", absl::StrCat(now.sample));
    all.Set("time/batch_in_epoch", absl::StrCat(now.batch_in_epoch));
    all.Set("time/sample_in_epoch", absl::StrCat(now.sample_in_epoch));
    if (now.token > 0) {
      all.Set("time/token", absl::StrCat(now.token));
      all.Set("time/token_in_epoch", absl::StrCat(now.token_in_epoch));
    }
    const std::string metrics = train_.Take("Train");
    return Print(absl::StrCat(TrainProgress(now), all.Take("Train"), metrics.empty() ? "" : metrics.substr(1)));
  }

  ConsoleOptions options_;
  Time max_duration_;
  int64_t batches_per_epoch_ = 0;
  int64_t last_printed_ = 0;  // batch
  bool has_table_ = false;    // since last_printed_
  Hyperparameters hyperparameters_;
  Collected train_, eval_;
  std::string eval_end_;  // the line of an evaluation whose metrics come next, or ""
};

class ConsoleCallback final : public Callback {
 public:
  explicit ConsoleCallback(std::shared_ptr<Console> console) : console_(std::move(console)) {}
  std::string name() const override { return "ConsoleLogger"; }
  EventSet events() const override {
    return {Event::kFitStart,     Event::kEpochEnd, Event::kFitEnd,       Event::kEvalStart,
            Event::kEvalBatchEnd, Event::kEvalEnd,  Event::kEvalAfterAll, Event::kEvalStandaloneEnd};
  }
  // A console that cannot be written to does not stop the run.
  absl::Status Run(Event event, State& state, Logger& logger) override {
    OnEvent(event, state).IgnoreError();
    return absl::OkStatus();
  }

 private:
  absl::Status OnEvent(Event event, const State& state) {
    switch (event) {
      case Event::kFitStart:
        console_->StartTraining(state);
        return console_->PrintHyperparameters();
      case Event::kEpochEnd:
        return console_->EndEpoch(state.timestamp);
      case Event::kFitEnd:
        return console_->EndFit(state.timestamp);
      case Event::kEvalStart:
        return console_->PrintHyperparameters();
      case Event::kEvalBatchEnd:
        return console_->EvalBatch(state);
      case Event::kEvalEnd:
        console_->EndEval(state);
        return absl::OkStatus();
      default:
        return console_->FinishEval();
    }
  }

  std::shared_ptr<Console> console_;
};

class ConsoleDestination final : public LoggerDestination {
 public:
  explicit ConsoleDestination(std::shared_ptr<Console> console) : console_(std::move(console)) {}
  std::string name() const override { return "ConsoleLogger"; }
  absl::Status Write(const MetricRecord& record) override { return console_->Add(record); }
  absl::Status WriteHyperparameters(const Hyperparameters& hyperparameters) override {
    console_->Keep(hyperparameters);
    return absl::OkStatus();
  }
  absl::Status WriteTable(const TableRecord& record) override {
    console_->AddTable(record);
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<Console> console_;
};

}  // namespace

ConsoleLogger MakeConsoleLogger(const ConsoleOptions& options) {
  auto console = std::make_shared<Console>(options);
  return {std::make_unique<ConsoleCallback>(console), std::make_unique<ConsoleDestination>(console)};
}

}  // namespace composer
