// Parses the kernel's figures about this process, and those of each disk and network interface, from the text of /proc
// (proc(5)). Pure. core/machine_stats.h has those of the whole machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Parses /proc/self/statm.
absl::StatusOr<int64_t> ParseResidentBytes(absl::string_view statm, int64_t page_bytes);

// Keyed by device, whole disks only (no partitions, no loop or ram devices).
struct DiskTotals {
  int64_t read_bytes = 0, written_bytes = 0;
  int64_t busy_ms = 0;
};
std::map<std::string, DiskTotals> ParseDisks(absl::string_view proc_diskstats);

// Keyed by interface.
struct NetworkTotals {
  int64_t received_bytes = 0, sent_bytes = 0;
};
std::map<std::string, NetworkTotals> ParseNetwork(absl::string_view proc_net_dev);

}  // namespace composer
