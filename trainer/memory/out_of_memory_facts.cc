// SPDX-License-Identifier: Apache-2.0
#include "trainer/memory/out_of_memory_facts.h"

#include <unistd.h>

#include <algorithm>

#include "base/machine_stats.h"
#include "base/status_macros.h"
#include "trainer/memory/device_memory.h"

namespace composer {
namespace {

constexpr size_t kHostUsers = 6;

void AddHost(OutOfMemoryFacts& facts) {
  if (const auto machine = ReadMachineMemory(); machine.ok()) {
    facts.total_bytes = machine->total;
    facts.free_bytes = machine->available;
  }
  if (const auto own = ReadResidentMemory(); own.ok()) {
    facts.allocated_bytes = own->current_bytes;
    facts.peak_bytes = own->peak_bytes;
  }
  facts.users = HostMemoryUsers(kHostUsers);
}

absl::Status AddDriver(at::Device device, absl::string_view visible_devices, OutOfMemoryFacts& facts) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Nvml> nvml, Nvml::Load());
  ASSIGN_OR_RETURN(const int index, nvml->IndexOf(std::max<int>(0, device.index()), visible_devices));
  ASSIGN_OR_RETURN(const Nvml::Memory memory, nvml->MemoryOf(index));
  facts.total_bytes = memory.total_bytes;
  facts.free_bytes = memory.free_bytes;
  facts.users = GpuMemoryUsers(*nvml, index);
  return absl::OkStatus();
}

}  // namespace

OutOfMemoryFacts OutOfMemoryFactsOf(const State& state, absl::string_view error, absl::string_view visible_devices) {
  OutOfMemoryFacts facts;
  facts.error = std::string(error);
  facts.device = state.identity.device.str();
  facts.rank = state.identity.rank;
  facts.in_evaluation = state.model != nullptr && !state.model->is_training();
  facts.batch = state.timestamp.batch + (facts.in_evaluation ? 0 : 1);
  facts.device_batch_size = state.batch.num_samples;  // the microbatch's, while one is running
  facts.device_train_microbatch_size = state.settings.device_train_microbatch_size;
  facts.automatic = state.settings.auto_microbatch.has_value();
  facts.own_pid = getpid();
  if (state.identity.device.is_cpu()) {
    AddHost(facts);
    return facts;
  }
  if (const auto own = ReadDeviceMemory(state.identity.device); own.ok()) {
    facts.allocated_bytes = own->allocated;
    facts.peak_bytes = own->peak_allocated;
    facts.reserved_bytes = own->reserved;
  }
  AddDriver(state.identity.device, visible_devices, facts)
      .IgnoreError();  // without the driver's numbers the rest still helps
  return facts;
}

}  // namespace composer
