// Writes everything that is logged as lines of a text file, in Composer's format:
//
//   [hyperparameter]: seed: 17
//   [metric][batch=12]: loss/train/total: 0.4123
//   [table]: generations: {"columns":["prompt"],"data":[["a"]]}
//   [trace]: algorithm_traces/MixUp/before_forward:1          when the run logs traces, and log_traces
//
// A record is one write(), so a kill never tears one. The file is synced every flush_interval batches, so a power cut
// loses no more than these. The file of an earlier start is appended to. Composer's capture_stdout and capture_stderr
// are the launcher's task here: it keeps both streams of every rank in {run_folder}/logs.
// Source: mosaicml composer/loggers/file_logger.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/line_file.h"
#include "trainer/core/logger.h"

namespace composer {

// Created on every rank that has its own file name. The file and its folder are created at the first record: an
// unusable path is a failure like any other and does not stop the run.
class FileLogger final : public LoggerDestination {
 public:
  struct Options {
    std::string path;              // with placeholders filled in
    int64_t flush_interval = 100;  // batches, at least 1
    bool log_traces = true;
  };
  explicit FileLogger(Options options) : options_(std::move(options)) {}

  std::string name() const override { return "FileLogger"; }
  absl::Status Write(const MetricRecord& record) override;
  absl::Status WriteHyperparameters(const Hyperparameters& hyperparameters) override;
  absl::Status WriteTable(const TableRecord& record) override;
  absl::Status Close() override;

 private:
  absl::Status Append(absl::string_view lines);

  Options options_;
  std::optional<LineFile> file_;
  std::string text_;    // reused
  int64_t synced_ = 0;  // batch
};

}  // namespace composer
