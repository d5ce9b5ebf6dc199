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
// With dist_aggregate_batch_interval, every so many batches also <name>_avg, <name>_min and <name>_max of each of these
// over all ranks that can read theirs. That is one small all-gather, at those batches and no others.
//
// Source: mosaicml composer/callbacks/memory_monitor.py, which measures every batch, and has three collectives a
// number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/core/callback.h"
#include "trainer/memory/device_memory.h"

namespace composer {

class Communicator;

// A value that cannot be read is not logged; a warning says so once.
class MemoryMonitor final : public Callback {
 public:
  struct Options {
    int64_t interval = 10;                                         // batches; a reading costs some 50 microseconds
    std::vector<std::pair<std::string, std::string>> memory_keys;  // torch's name, ours; empty means all of the above
    int64_t dist_aggregate_batch_interval = 0;                     // 0: never
  };
  // communicator: the run's, of all ranks (TrainerOptions::communicator); outlives the monitor. Null: one rank.
  explicit MemoryMonitor(const Options& options, Communicator* communicator = nullptr)
      : options_(options), communicator_(communicator) {}

  std::string name() const override { return "MemoryMonitor"; }
  EventSet events() const override { return {Event::kBatchEnd}; }
  // kFailedPrecondition: the other ranks' memory is wanted, and there is no communicator.
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  using Metrics = std::vector<std::pair<std::string, double>>;
  std::optional<Metrics> Measure(const State& state);
  void LogOverRanks(const std::optional<Metrics>& own, const State& state, Logger& logger) const;

  Options options_;
  Communicator* communicator_;
  bool warned_ = false;
};

// Returns the metrics of a GPU's allocator, without "memory/": those in `keys`, or all.
std::vector<std::pair<std::string, double>> DeviceMemoryMetrics(
    const DeviceMemory& memory, const std::vector<std::pair<std::string, std::string>>& keys = {});
// Returns the names that memory_keys may have.
std::vector<std::string> DeviceMemoryKeys();

}  // namespace composer
