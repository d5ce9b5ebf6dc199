// Keeps everything in memory, for tests and for programs that plot their own runs.
// Source: mosaicml composer/loggers/in_memory_logger.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/core/logger.h"

namespace composer {

// The records, owned by whoever reads them.
struct MetricHistory {
  // Maps each metric to its (time, value) pairs in the order written.
  absl::flat_hash_map<std::string, std::vector<std::pair<Timestamp, double>>> data;
  int64_t records = 0;
  Hyperparameters hyperparameters;
  std::map<std::string, std::string> tables;                       // TableJson by name; the latest of each
  std::vector<std::pair<std::string, std::vector<Image>>> images;  // (name, images) in the order written

  std::vector<double> Values(absl::string_view metric) const;
};

class InMemoryLogger final : public LoggerDestination {
 public:
  // history must outlive the destination.
  explicit InMemoryLogger(MetricHistory* history) : history_(history) {}
  std::string name() const override { return "InMemoryLogger"; }
  absl::Status Write(const MetricRecord& record) override;
  absl::Status WriteHyperparameters(const Hyperparameters& hyperparameters) override;
  absl::Status WriteImages(const ImageRecord& record) override;
  absl::Status WriteTable(const TableRecord& record) override;

 private:
  MetricHistory* history_;
};

}  // namespace composer
