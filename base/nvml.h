// What the NVIDIA driver reports about this machine's GPUs, through NVML (libnvidia-ml.so.1), which comes with the
// driver. The library is opened at run time: there is neither a header nor a link-time dependency, and a machine
// without a driver merely gives an error Status.
//
// NVML numbers the machine's GPUs by their PCI addresses and ignores CUDA_VISIBLE_DEVICES: IndexOf translates. In a
// container the driver may report no processes, or ids of another pid namespace.
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

inline constexpr uint64_t kThrottleHardware = 0x8;          // the hardware slows down
inline constexpr uint64_t kThrottleSoftwareThermal = 0x20;  // too warm
inline constexpr uint64_t kThrottleHardwareThermal = 0x40;
inline constexpr uint64_t kThrottlePowerBrake = 0x80;  // the power supply demands less

// Thread-safe; NVML does its own locking. A call takes 10 us to 1 ms and never waits for the GPU's work.
// Errors: kUnavailable with NVML's message; kUnimplemented for what this GPU or driver does not measure.
class Nvml {
 public:
  struct Memory {
    int64_t total_bytes = 0, used_bytes = 0, free_bytes = 0;
  };
  // Percentages of the driver's last sampling period (1/6 to 1 s) in which a kernel ran, and in which memory was
  // accessed.
  struct Utilization {
    int gpu_percent = 0, memory_percent = 0;
  };
  struct Process {
    int64_t pid = 0;
    int64_t memory_bytes = -1;  // -1: the driver does not report it
  };

  struct XidEvent {
    int device = 0;
    int number = 0;  // launcher/process/xid.h says what it means
  };
  // Rows of the memory that were replaced because they had errors.
  struct RemappedRows {
    bool pending = false;  // one is replaced at the next reset of the GPU
    bool failed = false;   // one could not be replaced
  };

  // kNotFound when the library does not exist, kUnavailable when it cannot be used: no driver, no permission.
  static absl::StatusOr<std::unique_ptr<Nvml>> Load(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  absl::StatusOr<std::string> DriverVersion() const;
  absl::StatusOr<int> DeviceCount() const;
  // Returns the name that CUDA uses: "NVIDIA H100 80GB HBM3".
  absl::StatusOr<std::string> Name(int device) const;
  // Returns "GPU-1f0c…".
  absl::StatusOr<std::string> Uuid(int device) const;
  absl::StatusOr<Memory> MemoryOf(int device) const;
  absl::StatusOr<Utilization> UtilizationOf(int device) const;
  absl::StatusOr<int> TemperatureCelsius(int device) const;
  absl::StatusOr<double> PowerWatts(int device) const;
  // Returns the number of uncorrected memory errors since the driver was loaded.
  absl::StatusOr<int64_t> MemoryErrors(int device) const;
  // Returns why the clock is slowed down: a combination of the kThrottle… bits.
  absl::StatusOr<uint64_t> ThrottleReasons(int device) const;
  absl::StatusOr<RemappedRows> RowsOf(int device) const;
  // Listens to Xids of all devices from now on; an error when no device has them. Must be called once at most.
  absl::Status StartEvents();
  // Returns the Xids since the last call, at most 1,000; none before StartEvents. Does not wait.
  std::vector<XidEvent> TakeXids();
  // Returns the processes that compute on the device; largest first.
  absl::StatusOr<std::vector<Process>> Processes(int device) const;

  // Returns NVML's index of the device that CUDA calls `cuda_index`. `visible_devices` is the value of
  // CUDA_VISIBLE_DEVICES, "" when not set; its entries are numbers or prefixes of UUIDs. kOutOfRange when there is no
  // such device, kUnimplemented for the MIG-… entries of a partitioned GPU.
  absl::StatusOr<int> IndexOf(int cuda_index, absl::string_view visible_devices) const;

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);
  absl::StatusOr<void*> Handle(int device) const;
  absl::Status Check(int code, absl::string_view call) const;

  std::unique_ptr<Functions> functions_;
  void* events_ = nullptr;  // NVML's set
};

}  // namespace composer
