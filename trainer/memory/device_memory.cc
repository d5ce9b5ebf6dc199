// SPDX-License-Identifier: Apache-2.0
#include "trainer/memory/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int64_t kMaxProcBytes = 64 << 10;

}  // namespace

absl::StatusOr<DeviceMemory> ReadDeviceMemory(c10::Device device) {
  if (device.is_cpu()) return absl::UnimplementedError("a CPU has no caching allocator");
  try {
    c10::DeviceAllocator* allocator = c10::getDeviceAllocator(device.type());
    if (!allocator->initialized()) return absl::FailedPreconditionError(absl::StrCat(device.str(), " is not in use"));
    const auto stats = allocator->getDeviceStats(std::max<c10::DeviceIndex>(0, device.index()));
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    DeviceMemory memory;
    memory.allocated = stats.allocated_bytes[kAll].current, memory.peak_allocated = stats.allocated_bytes[kAll].peak;
    memory.active = stats.active_bytes[kAll].current, memory.peak_active = stats.active_bytes[kAll].peak;
    memory.inactive = stats.inactive_split_bytes[kAll].current;
    memory.peak_inactive = stats.inactive_split_bytes[kAll].peak;
    memory.reserved = stats.reserved_bytes[kAll].current, memory.peak_reserved = stats.reserved_bytes[kAll].peak;
    memory.alloc_retries = stats.num_alloc_retries;
    memory.num_ooms = stats.num_ooms;
    return memory;
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(absl::StrCat("no memory statistics of ", device.str(), ": ", error.what()));
  }
}

absl::StatusOr<ResidentMemory> ParseResidentMemory(absl::string_view statm, absl::string_view status,
                                                   int64_t page_bytes) {
  ResidentMemory memory;
  const std::vector<absl::string_view> fields = absl::StrSplit(statm, ' ');
  int64_t pages = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &pages))
    return absl::InternalError("/proc/self/statm has no resident pages");
  memory.current_bytes = pages * page_bytes;
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, "VmHWM:") || !absl::ConsumeSuffix(&line, "kB")) continue;
    int64_t kibibytes = 0;
    if (!absl::SimpleAtoi(line, &kibibytes)) break;
    memory.peak_bytes = kibibytes * 1024;
    return memory;
  }
  return absl::InternalError("/proc/self/status has no VmHWM");
}

absl::StatusOr<ResidentMemory> ReadResidentMemory() {
  ASSIGN_OR_RETURN(const std::string statm, ReadFile("/proc/self/statm", kMaxProcBytes));
  ASSIGN_OR_RETURN(const std::string status, ReadFile("/proc/self/status", kMaxProcBytes));
  return ParseResidentMemory(statm, status, sysconf(_SC_PAGESIZE));
}

}  // namespace composer
