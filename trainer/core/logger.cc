// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/logger.h"

#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace composer {
namespace {

// Catches exceptions, since a plugin's destination may throw and must not end the run.
absl::Status Call(const std::function<absl::Status(LoggerDestination&)>& call, LoggerDestination& destination) {
  try {
    return call(destination);
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace

std::string TableJson(const TableRecord& table) {
  nlohmann::ordered_json json;
  json["columns"] = std::vector<std::string>(table.columns.begin(), table.columns.end());
  json["data"] = std::vector<std::vector<std::string>>(table.rows.begin(), table.rows.end());
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

absl::Status LoggerDestination::FetchFile(absl::string_view, const std::string&) {
  return absl::UnimplementedError(absl::StrCat("no file can be fetched from ", name()));
}

void Logger::AddDestination(std::unique_ptr<LoggerDestination> destination) {
  const EventSet wanted = destination->events();
  events_.Add(wanted);
  destinations_.push_back(Slot{std::move(destination), wanted});
}

Logger::MetricId Logger::Intern(absl::string_view name) {
  const auto found = ids_.find(name);
  if (found != ids_.end()) return found->second;
  const MetricId id = static_cast<MetricId>(names_.size());
  names_.push_back(std::make_unique<std::string>(name));
  ids_.emplace(name, id);
  last_.push_back(std::numeric_limits<double>::quiet_NaN());
  is_pending_.push_back(false);
  was_logged_.push_back(false);
  pending_.reserve(names_.size());
  record_.reserve(names_.size());
  return id;
}

void Logger::Log(MetricId id, double value) {
  last_[id] = value;
  was_logged_[id] = true;
  if (destinations_.empty() || is_pending_[id]) return;
  is_pending_[id] = true;
  pending_.push_back(id);
}

void Logger::Start(const RunStart& start) {
  ForEach([&](LoggerDestination& destination) { return destination.Start(start); });
}

void Logger::Flush(const Timestamp& timestamp) {
  if (pending_.empty()) return;
  record_.clear();
  for (MetricId id : pending_) {
    record_.push_back(MetricValue{*names_[id], last_[id]});
    is_pending_[id] = false;
  }
  pending_.clear();
  ForEach([&](LoggerDestination& destination) { return destination.Write(MetricRecord{timestamp, record_}); });
}

void Logger::ForEach(const std::function<absl::Status(LoggerDestination&)>& call) {
  for (Slot& slot : destinations_) Report(slot, Call(call, *slot.destination));
}

void Logger::Report(Slot& slot, const absl::Status& status) {
  if (status.ok() || std::exchange(slot.failed, true)) return;
  LOG(WARNING) << "something is missing from " << slot.destination->name()
               << ", training continues; further failures are not reported: " << status;
}

void Logger::See(Event event, const State& state) {
  for (Slot& slot : destinations_) {
    if (!slot.events.Has(event)) continue;
    Report(slot,
           Call([&](LoggerDestination& destination) { return destination.See(event, state); }, *slot.destination));
  }
}

absl::Status Logger::FetchFile(absl::string_view name, const std::string& path) {
  absl::Status result = absl::UnimplementedError(absl::StrCat("no logger of this rank keeps files from which ", name,
                                                              " could be fetched, as remote_uploader_downloader does"));
  for (Slot& slot : destinations_) {
    const absl::Status status =
        Call([&](LoggerDestination& destination) { return destination.FetchFile(name, path); }, *slot.destination);
    if (status.ok()) return status;
    if (absl::IsUnimplemented(result) && !absl::IsUnimplemented(status)) result = status;
  }
  return result;
}

double Logger::Last(absl::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? std::numeric_limits<double>::quiet_NaN() : last_[found->second];
}

bool Logger::WasLogged(absl::string_view name) const {
  const auto found = ids_.find(name);
  return found != ids_.end() && was_logged_[found->second];
}

void Logger::LogHyperparameters(const Hyperparameters& hyperparameters) {
  ForEach([&](LoggerDestination& destination) { return destination.WriteHyperparameters(hyperparameters); });
}

void Logger::LogImages(const ImageRecord& record) {
  ForEach([&](LoggerDestination& destination) { return destination.WriteImages(record); });
}

void Logger::LogTable(const TableRecord& record) {
  ForEach([&](LoggerDestination& destination) { return destination.WriteTable(record); });
}

void Logger::LogFile(absl::string_view name, const std::string& path) {
  ForEach([&](LoggerDestination& destination) { return destination.TakeFile(name, path); });
}

void Logger::Close() {
  for (Slot& slot : destinations_) {
    const absl::Status status = Call([](LoggerDestination& d) { return d.Close(); }, *slot.destination);
    if (!status.ok() && !slot.failed) LOG(WARNING) << "closing " << slot.destination->name() << ": " << status;
  }
  destinations_.clear();
  events_ = EventSet();
}

}  // namespace composer
