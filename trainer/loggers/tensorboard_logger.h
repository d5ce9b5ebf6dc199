// Writes TensorBoard event files: scalars under their metric names with the batch as step, images, tables (Text tab),
// and hyperparameters (Text and HPARAMS tabs). Writing needs no TensorFlow; `tensorboard --logdir` reads the files.
//
//   {folder}/events.out.tfevents.<unix seconds>.<host>.<pid>
//
// A run that starts again writes a new file beside the older ones. It begins with the step from which the run
// continues, so that the charts have each step once. Events are kept in memory and written every flush_interval
// batches, every 10 seconds, after an evaluation and at the end. A kill loses no more than that, and the file always
// consists of whole records, except perhaps at its end.
// Source: mosaicml composer/loggers/tensorboard_logger.py (which starts a new file at every flush).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/clock.h"
#include "trainer/core/logger.h"

namespace composer {

// The file and its folder are created at the first record: an unusable path does not stop the run. When a write fails,
// its events are dropped, so that memory does not grow, and the next ones are tried.
class TensorBoardLogger final : public LoggerDestination {
 public:
  struct Options {
    std::string folder;
    std::string run_name;          // of the HPARAMS tab
    int64_t flush_interval = 100;  // batches, at least 1
  };
  // clock must outlive the logger.
  explicit TensorBoardLogger(Options options, const Clock& clock = RealClock::Get());
  ~TensorBoardLogger() override;

  std::string name() const override { return "TensorBoardLogger"; }
  absl::Status Write(const MetricRecord& record) override;
  absl::Status WriteHyperparameters(const Hyperparameters& hyperparameters) override;
  absl::Status WriteImages(const ImageRecord& record) override;
  absl::Status WriteTable(const TableRecord& record) override;
  absl::Status Close() override;

 private:
  void Add(absl::string_view event);
  // Adds the first records of a file, once the first step is known.
  void Begin(const Timestamp& now);
  absl::Status Open();
  absl::Status Flush();
  absl::Status Append(absl::string_view records);

  Options options_;
  const Clock& clock_;
  Hyperparameters hyperparameters_;
  std::string path_;
  int fd_ = -1;
  std::string pending_;  // whole records
  bool begun_ = false;
  int64_t last_step_ = 0, flushed_step_ = 0;
  absl::Time flushed_;
};

}  // namespace composer
