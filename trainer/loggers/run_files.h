// Keeps the pictures and tables of a run as files, and lists them with other finished files in files.jsonl, for
// experiment trackers (tracking/tracker.h). One line a file, each once, as in metrics.jsonl:
//   {"time/epoch":0,"time/batch":4,"time/sample":32,"wall":1793271123.4,"launch":1,"generation":1,
//    "kind":"image","name":"Images/Train","path":"media/Images/Train-ba4.png"}
// kind is image (PNG), table (JSON: columns and data), file (what a callback has written: LogFile) or checkpoint (a
// file of the newest one when the run ends, named after the checkpoint). Only files in the run folder are listed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/line_file.h"
#include "trainer/core/logger.h"
#include "trainer/loggers/record_file.h"

namespace composer {

class RunFiles final : public LoggerDestination {
 public:
  struct Options {
    std::string run_folder;
    RecordOrigin origin;
    bool lists_files = false;       // files of callbacks, config.yaml and the newest checkpoint, too
    std::string checkpoint_folder;  // with the file `latest`; "" or a place that is not a folder: none
    std::string latest = "latest";
  };
  explicit RunFiles(Options options) : options_(std::move(options)) {}

  std::string name() const override { return "RunFiles"; }
  absl::Status Start(const RunStart& start) override;
  absl::Status Write(const MetricRecord& record) override;
  absl::Status WriteImages(const ImageRecord& record) override;
  absl::Status WriteTable(const TableRecord& record) override;
  absl::Status TakeFile(absl::string_view name, const std::string& path) override;
  absl::Status Close() override;

 private:
  absl::Status List(const Timestamp& time, const char* kind, absl::string_view name, const std::string& path);
  absl::Status Keep(const Timestamp& time, const char* kind, absl::string_view name, const std::string& path,
                    absl::string_view content);
  absl::Status ListCheckpoint();
  // Returns "" for a path that is not in the run folder.
  std::string PathInRun(const std::string& path) const;

  const Options options_;
  Timestamp newest_;
  std::optional<LineFile> file_;
};

}  // namespace composer
