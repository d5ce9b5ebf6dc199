// What the kernel says about this machine: processor, memory, disk, network, and the largest processes. The parsers are
// pure (text of a /proc file in, numbers out); the readers around them are small.
// Names and formulas are psutil's, as Composer's SystemMetricsMonitor logs them.
// Source: Linux proc(5); psutil, psutil/_pslinux.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Ticks since boot, all processors together: /proc/stat's first line.
struct CpuTimes {
  int64_t total = 0;  // guests are part of user already
  int64_t idle = 0;   // idle and waiting for input or output
};
// Percent of the time between two readings that processors were busy, 0 to 100; 0 when no time passed.
double CpuPercent(const CpuTimes& before, const CpuTimes& now);

// Bytes. used = total - available, as free(1) says; cached with what slabs could give back.
struct MachineMemory {
  int64_t total = 0, available = 0, used = 0, free = 0, active = 0, inactive = 0, buffers = 0, cached = 0, shared = 0,
          slab = 0;
  int64_t swap_total = 0, swap_free = 0;
  double percent() const;  // used of total
};

// Bytes; used + free may be less than total: the rest is the administrator's reserve.
struct DiskSpace {
  int64_t total = 0, used = 0, free = 0;
  double percent() const;  // used of what a user may use
};

// Since boot, all interfaces together, the loopback too.
struct NetworkCounters {
  int64_t bytes_sent = 0, bytes_recv = 0, packets_sent = 0, packets_recv = 0;
  int64_t errin = 0, errout = 0, dropin = 0, dropout = 0;
};

struct ProcessMemory {
  int64_t pid = 0;
  std::string name;
  int64_t resident_bytes = 0;
};

// kInternal, naming the file and what is missing, for a text that is not what proc(5) says.
absl::StatusOr<CpuTimes> ParseCpuTimes(absl::string_view proc_stat);
absl::StatusOr<MachineMemory> ParseMachineMemory(absl::string_view proc_meminfo);
absl::StatusOr<NetworkCounters> ParseNetworkCounters(absl::string_view proc_net_dev);

// proc: where procfs is, a folder of their own in tests.
absl::StatusOr<CpuTimes> ReadCpuTimes(const std::string& proc = "/proc");
absl::StatusOr<MachineMemory> ReadMachineMemory(const std::string& proc = "/proc");
absl::StatusOr<NetworkCounters> ReadNetworkCounters(const std::string& proc = "/proc");
absl::StatusOr<DiskSpace> ReadDiskSpace(const std::string& path);
// At most `limit`, largest first; those that cannot be read are left out. Costs some 10 us a process.
std::vector<ProcessMemory> LargestProcesses(size_t limit, const std::string& proc = "/proc");
// "" when it cannot be read.
std::string ProcessName(int64_t pid, const std::string& proc = "/proc");

}  // namespace composer
