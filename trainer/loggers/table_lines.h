// tables.jsonl has one JSON object per table, as metrics.jsonl has one per record:
//   {"time/epoch":0,"time/batch":100,"time/sample":800,"wall":1793271123.4,"launch":1,"generation":2,
//    "table":"generations","columns":["prompt","generation"],"data":[["In the","beginning"]]}
// Bytes that are not UTF-8 are replaced by U+FFFD. Each table appears once: tables that a restart repeats are cut off
// first (record_file.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/line_file.h"
#include "trainer/core/logger.h"
#include "trainer/loggers/record_file.h"

namespace composer {

// The file is created at the first table; its folder must exist.
class TableLines final : public LoggerDestination {
 public:
  explicit TableLines(std::string path, const RecordOrigin& origin = {}) : path_(std::move(path)), origin_(origin) {}
  std::string name() const override { return "TableLines"; }
  absl::Status Start(const RunStart& start) override;
  absl::Status Write(const MetricRecord& record) override { return absl::OkStatus(); }
  absl::Status WriteTable(const TableRecord& record) override;

 private:
  std::string path_;
  const RecordOrigin origin_;
  std::optional<LineFile> file_;
};

}  // namespace composer
