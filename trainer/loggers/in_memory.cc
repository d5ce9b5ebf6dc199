// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/in_memory.h"

namespace composer {

std::vector<double> MetricHistory::Values(absl::string_view metric) const {
  std::vector<double> result;
  const auto found = data.find(metric);
  if (found == data.end()) return result;
  for (const auto& [when, value] : found->second) result.push_back(value);
  return result;
}

absl::Status InMemoryLogger::Write(const MetricRecord& record) {
  ++history_->records;
  for (const MetricValue& metric : record.metrics) {
    history_->data[metric.name].emplace_back(record.timestamp, metric.value);
  }
  return absl::OkStatus();
}

absl::Status InMemoryLogger::WriteHyperparameters(const Hyperparameters& hyperparameters) {
  history_->hyperparameters = hyperparameters;
  return absl::OkStatus();
}

absl::Status InMemoryLogger::WriteImages(const ImageRecord& record) {
  history_->images.emplace_back(std::string(record.name),
                                std::vector<Image>(record.images.begin(), record.images.end()));
  return absl::OkStatus();
}

absl::Status InMemoryLogger::WriteTable(const TableRecord& record) {
  history_->tables[std::string(record.name)] = TableJson(record);
  return absl::OkStatus();
}

}  // namespace composer
