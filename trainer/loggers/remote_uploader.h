// Keeps copies of a run's files in object storage: files that callbacks pass to the logger (traces, exported weights,
// memory snapshots), and those files of the run folder that `files` names (metrics.jsonl, logs …) whenever they have
// changed, every `interval` batches and at the end. A file is copied to a staging folder first, so that the run may
// continue writing it.
//
// Only this copy blocks training. Files that could not be uploaded are reported by name at the next record or at the
// end.
// Source: mosaicml composer/loggers/remote_uploader_downloader.py, whose options have the same names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "storage/upload_queue.h"
#include "trainer/core/logger.h"

namespace composer {

// Returns a name that a store accepts: without leading '/' or '.', and with every character other than [A-Za-z0-9._/-]
// replaced by '_'.
std::string RemoteKey(absl::string_view name);

class RemoteUploader final : public LoggerDestination {
 public:
  struct Options {
    std::string run_folder;
    std::string staging_folder;                       // created at the start, emptied at the end
    std::vector<std::string> files;                   // fnmatch patterns of names in the run folder; `*` matches `/`
    int64_t interval = 1000;                          // batches
    std::string key_format;                           // "{run_name}/{remote_file_name}", filled in except the last
    absl::Duration flush_timeout = absl::Minutes(5);  // of Close
    absl::Duration hasty_flush_timeout = absl::Seconds(20);  // when in_haste returns true: clouds give 30 s and more
    std::function<bool()> in_haste;                          // whether the machine is about to be taken away; empty: no
    UploadQueueOptions queue;
  };
  RemoteUploader(std::shared_ptr<ObjectStore> store, Options options);

  // Uploads a small object to where the files will go, so that a wrong bucket or credential is detected before
  // training.
  absl::Status CheckStore();

  std::string name() const override { return "RemoteUploaderDownloader"; }
  absl::Status Write(const MetricRecord& record) override;
  absl::Status TakeFile(absl::string_view name, const std::string& path) override;
  // Waits for uploads up to flush_timeout. The file is read in pieces, whatever its size.
  absl::Status FetchFile(absl::string_view name, const std::string& path) override;
  absl::Status Close() override;

 private:
  // The size, and the time of the last change in nanoseconds.
  using Version = std::pair<int64_t, int64_t>;

  std::string KeyOf(absl::string_view name) const;
  absl::Status TakeChanged();
  std::vector<std::string> NamesInRunFolder() const;

  const std::shared_ptr<ObjectStore> store_;
  const Options options_;
  UploadQueue queue_;
  std::map<std::string, Version> taken_;  // by name
  int64_t last_ = 0;                      // batch at which the run folder was last checked
  int64_t staged_ = 0;
};

}  // namespace composer
