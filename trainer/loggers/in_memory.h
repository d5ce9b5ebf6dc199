// Keeps everything in memory, for tests and for programs that plot their own runs.
// Source: mosaicml composer/loggers/in_memory_logger.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "trainer/core/logger.h"

namespace composer {

// The records, owned by whoever reads them.
struct MetricHistory {
  // Maps each metric to its (time, value) pairs in the order written.
  absl::flat_hash_map<std::string, std::vector<std::pair<Timestamp, double>>> data;
  int64_t records = 0;
  Hyperparameters hyperparameters;
  std::map<std::string, std::string> tables;                       // TableJson by name; the latest of each
  std::vector<std::pair<std::string, std::vector<Image>>> images;  // (name, images) in the order written

  std::vector<double> Values(absl::string_view metric) const;
  // Returns the metric's values under its own name, and when they were logged under Composer's names of times: epoch,
  // batch, batch_in_epoch, sample, sample_in_epoch, token, token_in_epoch, iteration, and total_wct, epoch_wct and
  // batch_wct in seconds. All are equally long. Source: mosaicml in_memory_logger.py, get_timeseries().
  std::map<std::string, std::vector<double>> GetTimeseries(absl::string_view metric) const;
};

class InMemoryLogger final : public LoggerDestination {
 public:
  // history must outlive the destination.
  explicit InMemoryLogger(MetricHistory* history) : history_(history) {}
  // Keeps the history itself, as `loggers: {in_memory: }` in a job's file does.
  InMemoryLogger() : history_(&own_) {}
  InMemoryLogger(const InMemoryLogger&) = delete;
  InMemoryLogger& operator=(const InMemoryLogger&) = delete;

  // Returns the first one among a run's loggers, null if there is none: of TrainerOptions, before the trainer takes
  // them. It lives as long as the trainer.
  static const InMemoryLogger* Among(absl::Span<const std::unique_ptr<LoggerDestination>> loggers);
  const MetricHistory& history() const { return *history_; }

  std::string name() const override { return "InMemoryLogger"; }
  absl::Status Write(const MetricRecord& record) override;
  absl::Status WriteHyperparameters(const Hyperparameters& hyperparameters) override;
  absl::Status WriteImages(const ImageRecord& record) override;
  absl::Status WriteTable(const TableRecord& record) override;

 private:
  MetricHistory own_;
  MetricHistory* history_;
};

}  // namespace composer
