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

std::map<std::string, std::vector<double>> MetricHistory::GetTimeseries(absl::string_view metric) const {
  std::map<std::string, std::vector<double>> series;
  const auto found = data.find(metric);
  if (found == data.end()) return series;
  const auto count = [](int64_t number) { return static_cast<double>(number); };
  for (const auto& [when, value] : found->second) {
    const std::pair<absl::string_view, double> row[] = {{"iteration", count(when.iteration)},
                                                        {"epoch", count(when.epoch)},
                                                        {"batch", count(when.batch)},
                                                        {"batch_in_epoch", count(when.batch_in_epoch)},
                                                        {"sample", count(when.sample)},
                                                        {"sample_in_epoch", count(when.sample_in_epoch)},
                                                        {"token", count(when.token)},
                                                        {"token_in_epoch", count(when.token_in_epoch)},
                                                        {"total_wct", absl::ToDoubleSeconds(when.total_wct)},
                                                        {"epoch_wct", absl::ToDoubleSeconds(when.epoch_wct)},
                                                        {"batch_wct", absl::ToDoubleSeconds(when.batch_wct)},
                                                        {metric, value}};
    for (const auto& [name, number] : row) series[std::string(name)].push_back(number);
  }
  return series;
}

const InMemoryLogger* InMemoryLogger::Among(absl::Span<const std::unique_ptr<LoggerDestination>> loggers) {
  for (const auto& logger : loggers) {
    if (const auto* found = dynamic_cast<const InMemoryLogger*>(logger.get())) return found;
  }
  return nullptr;
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
