// Writes TensorBoard event files: scalars under their metric names with the batch as step, images, tables (Text tab),
// hyperparameters (Text and HPARAMS tabs). No TensorFlow is needed to write; `tensorboard --logdir` reads.
//
//   {folder}/events.out.tfevents.<unix seconds>.<host>.<pid>
//
// A run that starts again writes a file beside the older ones, which begins with the step that it goes on from, so that
// the charts have each step once. Events are kept in memory and written every flush_interval batches, every 10 seconds,
// after an evaluation and at the end: a kill loses no more than that, and the file is always made of whole records but
// for its end.
// Source: mosaicml composer/loggers/tensorboard_logger.py (which starts a new file at every flush).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/clock.h"
#include "trainer/core/logger.h"

namespace composer {

// The file, and its folder, are created at the first record: a path that does not work stops nothing. After a failed
// write its events are dropped, so that memory does not grow; the next ones are tried.
class TensorBoardLogger final : public LoggerDestination {
 public:
  struct Options {
    std::string folder;
    std::string run_name;          // of the HPARAMS tab
    int64_t flush_interval = 100;  // batches, at least 1
  };
  // clock outlives the logger.
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
  // Adds what a file begins with, when the first step is known.
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
