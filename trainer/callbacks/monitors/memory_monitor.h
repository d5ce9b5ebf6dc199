// Logs the memory of this process's device (rank 0's, where the logs are written) every `interval` batches, in GB = 1e9
// bytes with 5 significant digits.
//
// On a GPU the values come from the caching allocator and have Composer's names. Allocated bytes are in tensors; active
// ones also include blocks that another stream still uses; inactive ones belong to split blocks and cannot be given
// back; reserved ones were taken from the driver:
//   memory/current_{allocated,active,inactive,reserved}_mem
//   memory/peak_{allocated,active,inactive,reserved}_mem     since the process started
//   memory/alloc_retries                                     how often the cache had to be emptied
// memory_keys selects and renames them, by torch's names: allocated_bytes.all.current, active_bytes,
// inactive_split_bytes and reserved_bytes, each .all.current or .all.peak, and num_alloc_retries.
// On a CPU, for which Composer logs nothing:
//   memory/current_resident_mem   resident pages now, /proc/self/statm
//   memory/peak_resident_mem      their maximum so far, VmHWM of /proc/self/status
//
// Source: mosaicml composer/callbacks/memory_monitor.py, which measures every batch. Its aggregation over ranks is left
// out, because it would add collectives to a step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainer/core/callback.h"
#include "trainer/memory/device_memory.h"

namespace composer {

// A value that cannot be read is not logged; a warning says so once.
class MemoryMonitor final : public Callback {
 public:
  struct Options {
    int64_t interval = 10;                                         // batches; a reading costs some 50 microseconds
    std::vector<std::pair<std::string, std::string>> memory_keys;  // torch's name, ours; empty means all of the above
  };
  explicit MemoryMonitor(const Options& options) : options_(options) {}

  std::string name() const override { return "MemoryMonitor"; }
  EventSet events() const override { return {Event::kBatchEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  Options options_;
  bool failed_ = false;
};

// Returns the metrics of a GPU's allocator, without "memory/": those in `keys`, or all.
std::vector<std::pair<std::string, double>> DeviceMemoryMetrics(
    const DeviceMemory& memory, const std::vector<std::pair<std::string, std::string>>& keys = {});
// Returns the names that memory_keys may have.
std::vector<std::string> DeviceMemoryKeys();

}  // namespace composer
