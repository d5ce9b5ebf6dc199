// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/memory_monitor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/core/state.h"
#include "trainer/loggers/logger.h"

namespace composer {
namespace {

double Gigabytes(int64_t bytes) {
  double rounded = 0;
  (void)absl::SimpleAtod(absl::StrFormat("%.5g", static_cast<double>(bytes) / 1e9), &rounded);
  return rounded;
}

absl::Status LogMemory(const State& state, Logger& logger) {
  if (state.device.is_cpu()) {
    ASSIGN_OR_RETURN(const ResidentMemory memory, ReadResidentMemory());
    logger.Log("memory/current_resident_mem", Gigabytes(memory.current_bytes));
    logger.Log("memory/peak_resident_mem", Gigabytes(memory.peak_bytes));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const DeviceMemory memory, ReadDeviceMemory(state.device));
  for (const auto& [name, value] : DeviceMemoryMetrics(memory)) logger.Log(absl::StrCat("memory/", name), value);
  return absl::OkStatus();
}

}  // namespace

std::vector<std::pair<std::string, double>> DeviceMemoryMetrics(const DeviceMemory& memory) {
  return {{"current_allocated_mem", Gigabytes(memory.allocated)},
          {"current_active_mem", Gigabytes(memory.active)},
          {"current_inactive_mem", Gigabytes(memory.inactive)},
          {"current_reserved_mem", Gigabytes(memory.reserved)},
          {"peak_allocated_mem", Gigabytes(memory.peak_allocated)},
          {"peak_active_mem", Gigabytes(memory.peak_active)},
          {"peak_inactive_mem", Gigabytes(memory.peak_inactive)},
          {"peak_reserved_mem", Gigabytes(memory.peak_reserved)},
          {"alloc_retries", static_cast<double>(memory.alloc_retries)}};
}

absl::Status MemoryMonitor::Run(Event event, State& state, Logger& logger) {
  if (failed_ || state.timestamp.batch % std::max<int64_t>(1, options_.interval) != 0) return absl::OkStatus();
  if (const absl::Status status = LogMemory(state, logger); !status.ok()) {
    failed_ = true;
    LOG(WARNING) << "memory is not monitored: " << status;
  }
  return absl::OkStatus();
}

}  // namespace composer
