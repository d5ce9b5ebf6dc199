// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/memory_monitor.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/core/state.h"
#include "trainer/loggers/logger.h"

namespace composer {
namespace {

constexpr int64_t kMaxProcBytes = 64 << 10;

double Gigabytes(int64_t bytes) {
  double rounded = 0;
  (void)absl::SimpleAtod(absl::StrFormat("%.5g", static_cast<double>(bytes) / 1e9), &rounded);
  return rounded;
}

absl::StatusOr<ResidentMemory> ReadResidentMemory() {
  ASSIGN_OR_RETURN(const std::string statm, ReadFile("/proc/self/statm", kMaxProcBytes));
  ASSIGN_OR_RETURN(const std::string status, ReadFile("/proc/self/status", kMaxProcBytes));
  return ParseResidentMemory(statm, status, sysconf(_SC_PAGESIZE));
}

}  // namespace

absl::StatusOr<ResidentMemory> ParseResidentMemory(absl::string_view statm, absl::string_view status,
                                                   int64_t page_bytes) {
  ResidentMemory memory;
  const std::vector<absl::string_view> fields = absl::StrSplit(statm, ' ');
  int64_t pages = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &pages))
    return absl::InternalError("/proc/self/statm has no resident pages");
  memory.current_bytes = pages * page_bytes;
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, "VmHWM:") || !absl::ConsumeSuffix(&line, "kB")) continue;
    int64_t kibibytes = 0;
    if (!absl::SimpleAtoi(line, &kibibytes)) break;
    memory.peak_bytes = kibibytes * 1024;
    return memory;
  }
  return absl::InternalError("/proc/self/status has no VmHWM");
}

absl::Status MemoryMonitor::Run(Event event, State& state, Logger& logger) {
  if (failed_ || state.timestamp.batch % std::max<int64_t>(1, options_.interval) != 0) return absl::OkStatus();
  const absl::StatusOr<ResidentMemory> memory = ReadResidentMemory();
  if (!memory.ok()) {
    failed_ = true;
    LOG(WARNING) << "memory is not monitored: " << memory.status();
    return absl::OkStatus();
  }
  logger.Log("memory/current_resident_mem", Gigabytes(memory->current_bytes));
  logger.Log("memory/peak_resident_mem", Gigabytes(memory->peak_bytes));
  return absl::OkStatus();
}

}  // namespace composer
