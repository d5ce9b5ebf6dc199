// metrics.jsonl: one flat JSON object a record. Time first, under Composer's names, then the metrics:
//   {"time/epoch":0,"time/batch":12,"time/batch_in_epoch":12,"time/sample":1536,"wall":1793271123.4,"loss/train/total":0.41}
// time/batch counts the steps done: the first step's line has 1. time/token is there when the data has tokens. `wall` is
// unix seconds to the millisecond. Numbers read back as the same double; NaN and infinities are null.
// Source of the names: mosaicml composer/trainer/trainer.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/line_file.h"
#include "trainer/loggers/logger.h"

namespace composer {

// About 2 us a record of 8 metrics, most of it write(); no allocation once the line's buffer has grown.
class JsonLines final : public LoggerDestination {
 public:
  static absl::StatusOr<std::unique_ptr<JsonLines>> Open(const std::string& path);
  std::string name() const override { return "JsonLines"; }
  absl::Status Write(const MetricRecord& record) override;

 private:
  explicit JsonLines(LineFile file) : file_(std::move(file)) {}
  void Append(absl::string_view key, double value);
  void Append(absl::string_view key, int64_t value);

  LineFile file_;
  std::string line_;  // reused
};

}  // namespace composer
