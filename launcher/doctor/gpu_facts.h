// What `composer doctor` asks of each GPU. Nothing is judged here; doctor_checks.h does that.
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
  uint64_t throttle_reasons = 0;  // see base/nvml.h
};

struct DriverFacts {
  std::string error;  // why nothing else, or not all, is known; "": all is
  std::string driver;
  std::vector<GpuFacts> gpus;  // that answer
};

DriverFacts ReadDriverFacts(const std::string& library = "libnvidia-ml.so.1");

}  // namespace composer
