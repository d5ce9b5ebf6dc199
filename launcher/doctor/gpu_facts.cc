// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/gpu_facts.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nvml.h"

namespace composer {
namespace {

constexpr size_t kMostXids = 100;  // the newest are kept

GpuFacts ReadGpu(const Nvml& nvml, int device, std::string name) {
  GpuFacts gpu;
  gpu.name = std::move(name);
  if (const auto memory = nvml.MemoryOf(device); memory.ok()) {
    gpu.memory_bytes = memory->total_bytes;
    gpu.memory_used = memory->used_bytes;
  }
  gpu.temperature = nvml.TemperatureCelsius(device).value_or(-1);
  gpu.ecc_errors = nvml.MemoryErrors(device).value_or(-1);
  gpu.throttle_reasons = nvml.ThrottleReasons(device).value_or(0);
  const Nvml::RemappedRows rows = nvml.RowsOf(device).value_or(Nvml::RemappedRows{});
  gpu.row_pending = rows.pending;
  gpu.row_failed = rows.failed;
  return gpu;
}

std::vector<Xid> ReadXids(const std::string& kernel_log) {
  std::vector<Xid> xids;
  const int fd = kernel_log.empty() ? -1 : open(kernel_log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return xids;
  std::array<char, 8192> record;  // each read returns one record
  while (true) {
    const ssize_t size = read(fd, record.data(), record.size());
    // EPIPE means that records were lost; the next read goes on.
    if (size < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (size <= 0) break;
    if (auto xid = ParseXidRecord({record.data(), static_cast<size_t>(size)})) xids.push_back(*std::move(xid));
    if (xids.size() > kMostXids) xids.erase(xids.begin());
  }
  close(fd);
  return xids;
}

}  // namespace

DriverFacts ReadDriverFacts(const std::string& library, const std::string& kernel_log) {
  DriverFacts facts;
  facts.xids = ReadXids(kernel_log);
  const auto nvml = Nvml::Load(library);
  if (absl::IsNotFound(nvml.status())) {
    facts.error = absl::StrCat("cannot load ", library, ": the NVIDIA driver is not installed, or not visible in here");
  } else if (!nvml.ok()) {
    facts.error = absl::StrCat("NVML does not start: ", nvml.status().message(), " (nvidia-smi says more)");
  }
  if (!facts.error.empty()) return facts;
  facts.driver = (*nvml)->DriverVersion().value_or("");
  const absl::StatusOr<int> count = (*nvml)->DeviceCount();
  if (!count.ok()) facts.error = absl::StrCat("NVML does not count the GPUs: ", count.status().message());
  for (int device = 0; device < count.value_or(0); ++device) {
    absl::StatusOr<std::string> name = (*nvml)->Name(device);
    if (name.ok()) {
      facts.gpus.push_back(ReadGpu(**nvml, device, *std::move(name)));
    } else {
      facts.error = absl::StrCat("GPU ", device, " does not answer: it may have fallen off the bus (dmesg | grep Xid)");
    }
  }
  return facts;
}

}  // namespace composer
