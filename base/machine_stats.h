// What the kernel reports about this machine: processor, memory, disk, network, and the largest processes. The parsers
// are pure (text of a /proc file in, numbers out); the readers around them are small.
// Names and formulas are those of psutil, as Composer's SystemMetricsMonitor logs them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Ticks since boot, summed over all processors: /proc/stat's first line.
struct CpuTimes {
  int64_t total = 0;  // guest time is already part of user
  int64_t idle = 0;   // idle, and waiting for I/O
};
// Returns the percentage of the time between two readings in which processors were busy, 0 to 100; 0 when no time
// passed.
double CpuPercent(const CpuTimes& before, const CpuTimes& now);

// Bytes. `used` = total - available, as in free(1); `cached` includes what slabs could give back.
struct MachineMemory {
  int64_t total = 0, available = 0, used = 0, free = 0, active = 0, inactive = 0, buffers = 0, cached = 0, shared = 0,
          slab = 0;
  int64_t swap_total = 0, swap_free = 0;
  double percent() const;  // used of total
};

// Bytes; used + free may be less than total: the rest is reserved for the administrator.
struct DiskSpace {
  int64_t total = 0, used = 0, free = 0;
  double percent() const;  // used of what is available to a user
};

// Since boot, summed over all interfaces, including the loopback.
struct NetworkCounters {
  int64_t bytes_sent = 0, bytes_recv = 0, packets_sent = 0, packets_recv = 0;
  int64_t errin = 0, errout = 0, dropin = 0, dropout = 0;
};

struct ProcessMemory {
  int64_t pid = 0;
  std::string name;
  int64_t resident_bytes = 0;
};

// kInternal, naming the file and what is missing, when the text does not have the format of proc(5).
absl::StatusOr<CpuTimes> ParseCpuTimes(absl::string_view proc_stat);
absl::StatusOr<MachineMemory> ParseMachineMemory(absl::string_view proc_meminfo);
absl::StatusOr<NetworkCounters> ParseNetworkCounters(absl::string_view proc_net_dev);

// Returns the fields of the text of /proc/<pid>/stat behind the process's name: the first is field 3 of proc(5), the
// state. Empty if there is no name.
std::vector<absl::string_view> FieldsOfProcStat(absl::string_view proc_stat);

// `proc` is where procfs is mounted, or a separate folder in tests.
absl::StatusOr<CpuTimes> ReadCpuTimes(const std::string& proc = "/proc");
absl::StatusOr<MachineMemory> ReadMachineMemory(const std::string& proc = "/proc");
absl::StatusOr<NetworkCounters> ReadNetworkCounters(const std::string& proc = "/proc");
absl::StatusOr<DiskSpace> ReadDiskSpace(const std::string& path);
// Returns at most `limit` processes, largest first; leaves out those that cannot be read. Costs about 10 us per
// process.
std::vector<ProcessMemory> LargestProcesses(size_t limit, const std::string& proc = "/proc");
// What the machine is; "" for what cannot be read. Each has 200 bytes at most.
struct MachineNames {
  std::string os;         // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;     // "Linux 6.1.0"
  std::string processor;  // "AMD EPYC 9B14"
};
MachineNames ReadMachineNames(const std::string& proc = "/proc", const std::string& etc = "/etc");
// Returns the value of the first line "name: value" or "name=value" (`separator`) of a text, without quotes; or "".
std::string ValueOfLine(absl::string_view text, absl::string_view name, char separator);

// Returns the name by which the kernel knows this machine, "localhost" if it has none.
std::string HostName();
// Returns "" when the name cannot be read.
std::string ProcessName(int64_t pid, const std::string& proc = "/proc");

}  // namespace composer
