// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/logger.h"

#include <limits>
#include <utility>

#include "base/log.h"

namespace composer {

void Logger::AddDestination(std::unique_ptr<LoggerDestination> destination) {
  destinations_.push_back(Slot{std::move(destination)});
}

Logger::MetricId Logger::Intern(absl::string_view name) {
  const auto found = ids_.find(name);
  if (found != ids_.end()) return found->second;
  const MetricId id = static_cast<MetricId>(names_.size());
  names_.push_back(std::make_unique<std::string>(name));
  ids_.emplace(name, id);
  last_.push_back(std::numeric_limits<double>::quiet_NaN());
  is_pending_.push_back(false);
  pending_.reserve(names_.size());
  record_.reserve(names_.size());
  return id;
}

void Logger::Log(MetricId id, double value) {
  last_[id] = value;
  if (destinations_.empty() || is_pending_[id]) return;
  is_pending_[id] = true;
  pending_.push_back(id);
}

void Logger::Flush(const Timestamp& timestamp) {
  if (pending_.empty()) return;
  record_.clear();
  for (MetricId id : pending_) {
    record_.push_back(MetricValue{*names_[id], last_[id]});
    is_pending_[id] = false;
  }
  pending_.clear();
  for (Slot& slot : destinations_) {
    const absl::Status status = slot.destination->Write(MetricRecord{timestamp, record_});
    if (status.ok() || slot.failed) continue;
    slot.failed = true;
    LOG(WARNING) << "some metrics are missing from " << slot.destination->name()
                 << ", training goes on; further failures are not reported: " << status;
  }
}

double Logger::Last(absl::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? std::numeric_limits<double>::quiet_NaN() : last_[found->second];
}

void Logger::Close() {
  for (Slot& slot : destinations_) {
    const absl::Status status = slot.destination->Close();
    if (!status.ok()) LOG(WARNING) << "closing " << slot.destination->name() << ": " << status;
  }
  destinations_.clear();
}

}  // namespace composer
