// Facts that `composer doctor` reads from each GPU. Nothing is judged here; doctor_checks.h does that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/process/xid.h"

namespace composer {

struct GpuFacts {
  std::string name;
  int64_t memory_bytes = 0;
  int64_t memory_used = 0;
  int temperature = -1;  // degrees Celsius; -1 if not reported
  // Uncorrected since the driver was loaded; -1 if there is no ECC or it is not reported.
  int64_t ecc_errors = -1;
  uint64_t throttle_reasons = 0;  // see base/nvml.h
  bool row_pending = false;       // a bad row of its memory is replaced at the next reset
  bool row_failed = false;        // one could not be replaced
};

struct DriverFacts {
  std::string error;  // why some or all facts are missing; "" if none is
  std::string driver;
  std::vector<GpuFacts> gpus;  // those that answer
  std::vector<Xid> xids;       // of the kernel log, oldest first; none where it cannot be read
};

// `kernel_log` is /dev/kmsg; "" reads none.
DriverFacts ReadDriverFacts(const std::string& library = "libnvidia-ml.so.1", const std::string& kernel_log = "");

}  // namespace composer
