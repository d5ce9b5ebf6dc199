// Writes TensorBoard event files: scalars under their metric names with the batch as step, images, tables (Text tab),
// and hyperparameters (Text and HPARAMS tabs). Writing needs no TensorFlow; `tensorboard --logdir` reads the files.
//
//   {folder}/events.out.tfevents.<unix seconds>.<host>.<pid>
//
// A run that starts again writes a new file beside the older ones, which are cut where the run continues
// (tensorboard_files.h). Events are kept in memory and written every flush_interval batches, every 10 seconds, after an
// evaluation and at the end. What a kill takes of them is written at the next start, from metrics.jsonl, so that the
// charts have what metrics.jsonl has, each record once. The file always consists of whole records, except perhaps at
// its end.
// Source: mosaicml composer/loggers/tensorboard_logger.py (which starts a new file at every flush).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/clock.h"
#include "trainer/core/logger.h"
#include "trainer/loggers/tensorboard_events.h"
#include "trainer/loggers/tensorboard_files.h"

namespace composer {

// The file and its folder are created at the first record: an unusable path does not stop the run. When a write fails,
// its events are dropped, so that memory does not grow, and the next ones are tried.
class TensorBoardLogger final : public LoggerDestination {
 public:
  struct Options {
    std::string folder;
    std::string run_name;          // of the HPARAMS tab
    int64_t flush_interval = 100;  // batches, at least 1
    std::string records = "";      // the run's metrics.jsonl, if it has one
  };
  // clock must outlive the logger.
  explicit TensorBoardLogger(Options options, const Clock& clock = RealClock::Get());
  ~TensorBoardLogger() override;

  std::string name() const override { return "TensorBoardLogger"; }
  absl::Status Start(const RunStart& start) override;
  absl::Status Write(const MetricRecord& record) override;
  absl::Status WriteHyperparameters(const Hyperparameters& hyperparameters) override;
  absl::Status WriteImages(const ImageRecord& record) override;
  absl::Status WriteTable(const TableRecord& record) override;
  absl::Status Close() override;

 private:
  void Add(absl::string_view event);
  EventTime At(const Timestamp& now) const { return {clock_.Now(), now.batch, now.epoch}; }
  // Adds the first records of a file: those that name its version and the step from which it holds, once.
  void Begin(const EventTime& when);
  // Begins, and adds the hyperparameters, once.
  void BeginRecords(const Timestamp& now);
  absl::Status WriteMissing(const EventsEnd& end, const Timestamp& last);
  absl::Status Open();
  absl::Status Flush();
  absl::Status Append(absl::string_view records);

  Options options_;
  const Clock& clock_;
  Hyperparameters hyperparameters_;
  std::string path_;
  int fd_ = -1;
  std::string pending_;  // whole records
  bool begun_ = false, has_hyperparameters_ = false;
  int64_t first_step_ = -1;  // from which the file holds; -1: that of its first record
  int64_t last_step_ = 0, flushed_step_ = 0;
  absl::Time flushed_;
};

}  // namespace composer
