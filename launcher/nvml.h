// NVIDIA's management library, loaded at run time: what the driver says of the GPUs. Nothing is decided here.
// Functions and constants as in nvml.h of CUDA 12 (docs.nvidia.com/deploy/nvml-api); they are stable by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace composer {

struct GpuFacts {
  std::string name;
  int64_t memory_bytes = 0;
  int64_t memory_used = 0;
  int temperature = -1;           // degrees Celsius; -1: not said
  int64_t ecc_errors = -1;        // uncorrected since the driver was loaded; -1: no ECC, or not said
  uint64_t throttle_reasons = 0;  // bits below
};

inline constexpr uint64_t kThrottleHardware = 0x8;          // slow-down by the hardware
inline constexpr uint64_t kThrottleSoftwareThermal = 0x20;  // too warm
inline constexpr uint64_t kThrottleHardwareThermal = 0x40;
inline constexpr uint64_t kThrottlePowerBrake = 0x80;  // the power supply asks for less

struct NvmlFacts {
  std::string error;  // why nothing else is known; "": all is
  std::string driver;
  std::vector<GpuFacts> gpus;
};

NvmlFacts ReadNvml(const std::string& library = "libnvidia-ml.so.1");

}  // namespace composer
