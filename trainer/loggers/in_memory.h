// Keeps every record in memory: for tests and for programs that plot their own runs.
// Source: mosaicml composer/loggers/in_memory_logger.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/loggers/logger.h"

namespace composer {

// The records, to be owned by whoever reads them.
struct MetricHistory {
  // By metric: (when, value) in the order written. Empty when never written.
  absl::flat_hash_map<std::string, std::vector<std::pair<Timestamp, double>>> data;
  int64_t records = 0;

  std::vector<double> Values(absl::string_view metric) const;
};

class InMemoryLogger final : public LoggerDestination {
 public:
  // history outlives the destination.
  explicit InMemoryLogger(MetricHistory* history) : history_(history) {}
  std::string name() const override { return "InMemoryLogger"; }
  absl::Status Write(const MetricRecord& record) override;

 private:
  MetricHistory* history_;
};

}  // namespace composer
