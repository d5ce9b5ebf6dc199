// tables.jsonl: one JSON object a table, as metrics.jsonl has one a record:
//   {"time/epoch":0,"time/batch":100,"time/sample":800,"wall":1793271123.4,"table":"generations",
//    "columns":["prompt","generation"],"data":[["In the","beginning"]]}
// Bytes that are no UTF-8 are replaced by U+FFFD. A run that starts again goes on in the same file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/line_file.h"
#include "trainer/loggers/logger.h"

namespace composer {

// The file is made at the first table; its folder must be there.
class TableLines final : public LoggerDestination {
 public:
  explicit TableLines(std::string path) : path_(std::move(path)) {}
  std::string name() const override { return "TableLines"; }
  absl::Status Write(const MetricRecord& record) override { return absl::OkStatus(); }
  absl::Status WriteTable(const TableRecord& record) override;

 private:
  std::string path_;
  std::optional<LineFile> file_;
};

}  // namespace composer
