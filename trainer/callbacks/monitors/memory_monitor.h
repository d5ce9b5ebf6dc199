// Logs the memory of this process's device (rank 0's, where the logs are written) every `interval` batches, in GB = 1e9
// bytes with 5 significant digits.
//
// GPU, from the caching allocator, Composer's names (allocated: in tensors; active: those and blocks that another stream
// still uses; inactive: what cannot be given back of split blocks; reserved: taken from the driver):
//   memory/current_{allocated,active,inactive,reserved}_mem
//   memory/peak_{allocated,active,inactive,reserved}_mem     since the process started
//   memory/alloc_retries                                     how often the cache had to be emptied
// memory_keys chooses among them and names them anew, by torch's names: allocated_bytes.all.current, active_bytes,
// inactive_split_bytes and reserved_bytes, each .all.current or .all.peak, and num_alloc_retries.
// CPU, which Composer's has nothing for:
//   memory/current_resident_mem   resident pages now, /proc/self/statm
//   memory/peak_resident_mem      the most it ever was, VmHWM of /proc/self/status
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

// What cannot be read is warned of once and not logged.
class MemoryMonitor final : public Callback {
 public:
  struct Options {
    int64_t interval = 10;                                         // batches; a reading costs some 50 microseconds
    std::vector<std::pair<std::string, std::string>> memory_keys;  // torch's name, ours; empty: all, as above
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

// The metrics of a GPU's allocator, without "memory/"; those of `keys`, or all.
std::vector<std::pair<std::string, double>> DeviceMemoryMetrics(
    const DeviceMemory& memory, const std::vector<std::pair<std::string, std::string>>& keys = {});
// The names that memory_keys may have.
std::vector<std::string> DeviceMemoryKeys();

}  // namespace composer
