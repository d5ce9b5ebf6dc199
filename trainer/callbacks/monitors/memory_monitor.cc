// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/memory_monitor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/core/logger.h"
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

absl::Status LogMemory(const MemoryMonitor::Options& options, const State& state, Logger& logger) {
  if (state.device.is_cpu()) {
    ASSIGN_OR_RETURN(const ResidentMemory memory, ReadResidentMemory());
    logger.Log("memory/current_resident_mem", Gigabytes(memory.current_bytes));
    logger.Log("memory/peak_resident_mem", Gigabytes(memory.peak_bytes));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const DeviceMemory memory, ReadDeviceMemory(state.device));
  for (const auto& [name, value] : DeviceMemoryMetrics(memory, options.memory_keys))
    logger.Log(absl::StrCat("memory/", name), value);
  return absl::OkStatus();
}

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

absl::Status MemoryMonitor::Run(Event event, State& state, Logger& logger) {
  if (failed_ || state.timestamp.batch % std::max<int64_t>(1, options_.interval) != 0) return absl::OkStatus();
  if (const absl::Status status = LogMemory(options_, state, logger); !status.ok()) {
    failed_ = true;
    LOG(WARNING) << "memory is not monitored: " << status;
  }
  return absl::OkStatus();
}

}  // namespace composer
