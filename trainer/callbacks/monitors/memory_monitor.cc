// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/memory_monitor.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/callbacks/monitors/values_over_ranks.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

double Gigabytes(int64_t bytes) {
  double rounded = 0;
  (void)absl::SimpleAtod(absl::StrFormat("%.5g", static_cast<double>(bytes) / 1e9), &rounded);
  return rounded;
}

struct StatEntry {
  const char* key;   // in torch.cuda.memory_stats
  const char* name;  // in Composer
  int64_t DeviceMemory::* value;
};
constexpr StatEntry kStatEntries[] = {
    {"allocated_bytes.all.current", "current_allocated_mem", &DeviceMemory::allocated},
    {"active_bytes.all.current", "current_active_mem", &DeviceMemory::active},
    {"inactive_split_bytes.all.current", "current_inactive_mem", &DeviceMemory::inactive},
    {"reserved_bytes.all.current", "current_reserved_mem", &DeviceMemory::reserved},
    {"allocated_bytes.all.peak", "peak_allocated_mem", &DeviceMemory::peak_allocated},
    {"active_bytes.all.peak", "peak_active_mem", &DeviceMemory::peak_active},
    {"inactive_split_bytes.all.peak", "peak_inactive_mem", &DeviceMemory::peak_inactive},
    {"reserved_bytes.all.peak", "peak_reserved_mem", &DeviceMemory::peak_reserved},
    {"num_alloc_retries", "alloc_retries", &DeviceMemory::alloc_retries}};

using Metrics = std::vector<std::pair<std::string, double>>;

Metrics ResidentMemoryMetrics(const ResidentMemory& memory) {
  return {{"current_resident_mem", Gigabytes(memory.current_bytes)},
          {"peak_resident_mem", Gigabytes(memory.peak_bytes)}};
}

absl::StatusOr<Metrics> ReadMetrics(const MemoryMonitor::Options& options, const at::Device& device) {
  if (device.is_cpu()) {
    ASSIGN_OR_RETURN(const ResidentMemory memory, ReadResidentMemory());
    return ResidentMemoryMetrics(memory);
  }
  ASSIGN_OR_RETURN(const DeviceMemory memory, ReadDeviceMemory(device));
  return DeviceMemoryMetrics(memory, options.memory_keys);
}

// Returns the metrics of a rank that cannot read its memory: the same names in the same order, all NaN.
Metrics UnknownMetrics(const MemoryMonitor::Options& options, const at::Device& device) {
  Metrics metrics = device.is_cpu() ? ResidentMemoryMetrics({}) : DeviceMemoryMetrics({}, options.memory_keys);
  for (auto& [name, value] : metrics) value = std::numeric_limits<double>::quiet_NaN();
  return metrics;
}

bool IsDue(int64_t batch, int64_t interval) { return interval > 0 && batch % interval == 0; }

}  // namespace

std::vector<std::string> DeviceMemoryKeys() {
  std::vector<std::string> keys;
  for (const StatEntry& entry : kStatEntries) keys.emplace_back(entry.key);
  return keys;
}

std::vector<std::pair<std::string, double>> DeviceMemoryMetrics(
    const DeviceMemory& memory, const std::vector<std::pair<std::string, std::string>>& keys) {
  std::vector<std::pair<std::string, double>> metrics;
  const auto add = [&](const StatEntry& entry, const std::string& name) {
    const int64_t value = memory.*entry.value;
    const bool bytes = entry.value != &DeviceMemory::alloc_retries;
    metrics.emplace_back(name, bytes ? Gigabytes(value) : static_cast<double>(value));
  };
  for (const StatEntry& entry : kStatEntries) {
    if (keys.empty()) add(entry, entry.name);
    for (const auto& [key, name] : keys) {
      if (key == entry.key) add(entry, name);
    }
  }
  return metrics;
}

std::optional<Metrics> MemoryMonitor::Measure(const State& state) {
  absl::StatusOr<Metrics> metrics = ReadMetrics(options_, state.identity.device);
  if (metrics.ok()) return *std::move(metrics);
  if (!std::exchange(warned_, true)) LOG(WARNING) << "memory is not monitored: " << metrics.status();
  return std::nullopt;
}

// Every rank must come here, including those that cannot read their memory or have no logger.
void MemoryMonitor::LogOverRanks(const std::optional<Metrics>& own, const State& state, Logger& logger) const {
  const Metrics metrics = own.has_value() ? *own : UnknownMetrics(options_, state.identity.device);
  std::vector<double> values;
  values.reserve(metrics.size());
  for (const auto& [name, value] : metrics) values.push_back(value);
  const std::vector<OverRanks> over = ValuesOverRanks(values, communicator_);
  for (size_t i = 0; i < over.size(); ++i) {
    if (std::isnan(over[i].avg)) continue;
    const std::string name = absl::StrCat("memory/", metrics[i].first);
    logger.Log(absl::StrCat(name, "_avg"), over[i].avg);
    logger.Log(absl::StrCat(name, "_min"), over[i].min);
    logger.Log(absl::StrCat(name, "_max"), over[i].max);
  }
}

absl::Status MemoryMonitor::Run(Event event, State& state, Logger& logger) {
  const bool logs = IsDue(state.timestamp.batch, options_.interval);
  const bool aggregates = IsDue(state.timestamp.batch, options_.dist_aggregate_batch_interval);
  if (!logs && !aggregates) return absl::OkStatus();
  if (aggregates && communicator_ == nullptr && state.identity.world_size > 1) {
    return absl::FailedPreconditionError(
        "dist_aggregate_batch_interval needs the run's communicator, MemoryMonitor's second argument");
  }
  const std::optional<Metrics> own = Measure(state);
  if (logs && own.has_value()) {
    for (const auto& [name, value] : *own) logger.Log(absl::StrCat("memory/", name), value);
  }
  if (aggregates) LogOverRanks(own, state, logger);
  return absl::OkStatus();
}

}  // namespace composer
