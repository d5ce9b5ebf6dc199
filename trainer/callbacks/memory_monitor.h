// Logs the memory of this process (rank 0's, where the logs are written) in GB = 1e9 bytes with 5 significant digits:
//
//   memory/current_resident_mem   resident pages now, /proc/self/statm
//   memory/peak_resident_mem      the most it ever was, VmHWM of /proc/self/status
//
// Source: mosaicml composer/callbacks/memory_monitor.py, which reports a GPU allocator's numbers under names of the
// same form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/core/callback.h"

namespace composer {

struct ResidentMemory {
  int64_t current_bytes = 0;
  int64_t peak_bytes = 0;
};
// From the text of the two files. kInternal when a number is not where the kernel's documentation (proc(5)) puts it.
absl::StatusOr<ResidentMemory> ParseResidentMemory(absl::string_view statm, absl::string_view status,
                                                   int64_t page_bytes);

// Where /proc cannot be read it warns once and logs nothing.
class MemoryMonitor final : public Callback {
 public:
  struct Options {
    int64_t interval = 10;  // batches; a reading costs some 50 microseconds
  };
  explicit MemoryMonitor(const Options& options) : options_(options) {}

  std::string name() const override { return "MemoryMonitor"; }
  EventSet events() const override { return {Event::kBatchEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  Options options_;
  bool failed_ = false;
};

}  // namespace composer
