// These functions measure the memory of tensors on any device without linking against CUDA: GPU allocators register
// themselves with c10, where their statistics are virtual functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// The unit is bytes. allocated: in tensors. active: those, and blocks that wait for another stream. reserved: taken
// from the driver. inactive: parts of split blocks that cannot go back to the driver.
struct DeviceMemory {
  int64_t allocated = 0, active = 0, inactive = 0, reserved = 0;
  int64_t peak_allocated = 0, peak_active = 0, peak_inactive = 0, peak_reserved = 0;
  int64_t alloc_retries = 0;  // failed device allocations that emptied the cache
  int64_t num_ooms = 0;
};

// Returns the memory of this process on a device other than a CPU, from its caching allocator; does not wait for the
// device. Returns kUnimplemented for a CPU, kFailedPrecondition when the device's library is not loaded or not in use.
absl::StatusOr<DeviceMemory> ReadDeviceMemory(c10::Device device);

// ResidentMemory is the memory of this process on a CPU.
struct ResidentMemory {
  int64_t current_bytes = 0;
  int64_t peak_bytes = 0;
};
// Parses the text of /proc/self/statm and /proc/self/status. Returns kInternal when a number is not where proc(5) puts
// it.
absl::StatusOr<ResidentMemory> ParseResidentMemory(absl::string_view statm, absl::string_view status,
                                                   int64_t page_bytes);
absl::StatusOr<ResidentMemory> ReadResidentMemory();

}  // namespace composer
