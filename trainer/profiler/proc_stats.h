// The kernel's figures about machine and process, parsed from the text of /proc (proc(5)). Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Of all CPUs together, in clock ticks since the boot. busy: all but idle and waiting for a disk.
struct CpuTicks {
  int64_t busy = 0;
  int64_t total = 0;
};
absl::StatusOr<CpuTicks> ParseCpuTicks(absl::string_view proc_stat);
// Percent of the time between two readings, 0 to 100.
double CpuPercent(const CpuTicks& before, const CpuTicks& now);

struct MachineMemory {  // bytes
  int64_t total = 0, available = 0, swap_total = 0, swap_free = 0;
};
absl::StatusOr<MachineMemory> ParseMachineMemory(absl::string_view proc_meminfo);

// From /proc/self/statm.
absl::StatusOr<int64_t> ParseResidentBytes(absl::string_view statm, int64_t page_bytes);

// By device, whole disks only (no partitions, no loop or ram devices).
struct DiskTotals {
  int64_t read_bytes = 0, written_bytes = 0;
  int64_t busy_ms = 0;
};
std::map<std::string, DiskTotals> ParseDisks(absl::string_view proc_diskstats);

// By interface.
struct NetworkTotals {
  int64_t received_bytes = 0, sent_bytes = 0;
};
std::map<std::string, NetworkTotals> ParseNetwork(absl::string_view proc_net_dev);

}  // namespace composer
