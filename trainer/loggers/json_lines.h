// metrics.jsonl has one flat JSON object per record: the time under Composer's names, then the start of the run that
// wrote it, then the metrics:
//   {"time/epoch":0,"time/batch":12,"time/batch_in_epoch":12,"time/sample":1536,"wall":1793271123.400,"launch":1,
//    "generation":2,"loss/train/total":0.41}
// time/batch counts the steps done: the first step's line has 1. time/token is present when the data has tokens. `wall`
// is unix seconds to the millisecond. Numbers read back as the same double; NaN and infinities are null. Each step
// appears once: lines that a restart repeats are cut off first (record_file.h).
// Source of the names: mosaicml composer/trainer/trainer.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/line_file.h"
#include "trainer/core/logger.h"
#include "trainer/loggers/record_file.h"

namespace composer {

// Takes about 2 us per record of 8 metrics, most of it for write(). Nothing is allocated once the line's buffer has
// grown.
class JsonLines final : public LoggerDestination {
 public:
  static absl::StatusOr<std::unique_ptr<JsonLines>> Open(const std::string& path, const RecordOrigin& origin = {});
  std::string name() const override { return "JsonLines"; }
  absl::Status Start(const RunStart& start) override;
  absl::Status Write(const MetricRecord& record) override;

 private:
  JsonLines(std::string path, LineFile file, const RecordOrigin& origin);
  void Append(absl::string_view quoted_key, double value);
  void Append(absl::string_view quoted_key, int64_t value);
  // Returns `"name":`, which is usually the same as in the last record.
  absl::string_view QuotedKey(size_t place, absl::string_view name);

  const std::string path_;
  const int64_t launch_;
  const std::string origin_;  // as it appears in each line
  std::optional<LineFile> file_;
  std::vector<std::pair<std::string, std::string>> keys_;  // by position in the record: a name and how it is written
  std::string line_;                                       // reused
};

}  // namespace composer
