// What the NVIDIA driver says about the GPUs of this machine, through NVML (libnvidia-ml.so.1), which comes with the
// driver. It is opened at run time: there is neither a header nor a link-time dependency, and a machine without a driver
// is a Status and no more.
//
// NVML counts the machine's GPUs in the order of their PCI addresses and knows nothing of CUDA_VISIBLE_DEVICES: IndexOf
// translates. In a container the driver may tell no processes, or ids of another pid namespace.
// Source: NVIDIA's NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

inline constexpr uint64_t kThrottleHardware = 0x8;          // slow-down by the hardware
inline constexpr uint64_t kThrottleSoftwareThermal = 0x20;  // too warm
inline constexpr uint64_t kThrottleHardwareThermal = 0x40;
inline constexpr uint64_t kThrottlePowerBrake = 0x80;  // the power supply asks for less

// Threads: any; NVML locks itself. A call costs 10 us to 1 ms and never waits for the GPU's work.
// Errors: kUnavailable with NVML's own words; kUnimplemented for what this GPU or driver does not measure.
class Nvml {
 public:
  struct Memory {
    int64_t total_bytes = 0, used_bytes = 0, free_bytes = 0;
  };
  // Percent of the driver's last sampling period (1/6 to 1 s) in which a kernel ran, and in which memory was accessed.
  struct Utilization {
    int gpu_percent = 0, memory_percent = 0;
  };
  struct Process {
    int64_t pid = 0;
    int64_t memory_bytes = -1;  // -1: the driver does not tell
  };

  // kNotFound when there is no such library, kUnavailable when it cannot be used: no driver, no permission.
  static absl::StatusOr<std::unique_ptr<Nvml>> Load(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  absl::StatusOr<std::string> DriverVersion() const;
  absl::StatusOr<int> DeviceCount() const;
  // As CUDA names it: "NVIDIA H100 80GB HBM3".
  absl::StatusOr<std::string> Name(int device) const;
  // "GPU-1f0c…"
  absl::StatusOr<std::string> Uuid(int device) const;
  absl::StatusOr<Memory> MemoryOf(int device) const;
  absl::StatusOr<Utilization> UtilizationOf(int device) const;
  absl::StatusOr<int> TemperatureCelsius(int device) const;
  absl::StatusOr<double> PowerWatts(int device) const;
  // Uncorrected memory errors since the driver was loaded.
  absl::StatusOr<int64_t> MemoryErrors(int device) const;
  // Why its clock is slowed down: bits kThrottle….
  absl::StatusOr<uint64_t> ThrottleReasons(int device) const;
  // That compute on the device; largest first.
  absl::StatusOr<std::vector<Process>> Processes(int device) const;

  // NVML's number of what CUDA calls `cuda_index`. visible_devices: the value of CUDA_VISIBLE_DEVICES, "" when not set;
  // its entries are numbers or beginnings of UUIDs. kOutOfRange when there is no such device, kUnimplemented for the
  // MIG-… entries of a partitioned GPU.
  absl::StatusOr<int> IndexOf(int cuda_index, absl::string_view visible_devices) const;

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);
  absl::StatusOr<void*> Handle(int device) const;
  absl::Status Check(int code, absl::string_view call) const;

  std::unique_ptr<Functions> functions_;
};

}  // namespace composer
