// Facts that `composer doctor` reads from each GPU. Nothing is judged here; doctor_checks.h does that.
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
  int temperature = -1;  // degrees Celsius; -1 if not reported
  // Uncorrected since the driver was loaded; -1 if there is no ECC or it is not reported.
  int64_t ecc_errors = -1;
  uint64_t throttle_reasons = 0;  // see base/nvml.h
};

struct DriverFacts {
  std::string error;  // why some or all facts are missing; "" if none is
  std::string driver;
  std::vector<GpuFacts> gpus;  // those that answer
};

DriverFacts ReadDriverFacts(const std::string& library = "libnvidia-ml.so.1");

}  // namespace composer
