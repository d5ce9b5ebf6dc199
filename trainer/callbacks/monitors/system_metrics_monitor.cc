// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/system_metrics_monitor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

constexpr uint64_t kThrottleAny =
    kThrottleHardware | kThrottleSoftwareThermal | kThrottleHardwareThermal | kThrottlePowerBrake;

struct GpuReading {
  int device = 0;
  double value = 0;
};

struct GpuMetric {
  const char* name;
  absl::StatusOr<double> (*read)(const Nvml& nvml, int device);
  bool optional = false;  // many GPUs do not measure it, and nothing is said of that
};
constexpr GpuMetric kGpuMetrics[] = {
    {"gpu_percentage",
     [](const Nvml& nvml, int device) -> absl::StatusOr<double> {
       ASSIGN_OR_RETURN(const Nvml::Utilization use, nvml.UtilizationOf(device));
       return use.gpu_percent;
     }},
    {"memory_percentage",
     [](const Nvml& nvml, int device) -> absl::StatusOr<double> {
       ASSIGN_OR_RETURN(const Nvml::Utilization use, nvml.UtilizationOf(device));
       return use.memory_percent;
     }},
    {"gpu_temperature_C",
     [](const Nvml& nvml, int device) -> absl::StatusOr<double> {
       ASSIGN_OR_RETURN(const int degrees, nvml.TemperatureCelsius(device));
       return degrees;
     }},
    {"gpu_power_usage_W", [](const Nvml& nvml, int device) { return nvml.PowerWatts(device); }},
    {"gpu_memory_errors",
     [](const Nvml& nvml, int device) -> absl::StatusOr<double> {
       ASSIGN_OR_RETURN(const int64_t errors, nvml.MemoryErrors(device));
       return static_cast<double>(errors);
     },
     /*optional=*/true},
    {"gpu_slowed_down",
     [](const Nvml& nvml, int device) -> absl::StatusOr<double> {
       ASSIGN_OR_RETURN(const uint64_t reasons, nvml.ThrottleReasons(device));
       return (reasons & kThrottleAny) != 0 ? 1 : 0;
     },
     /*optional=*/true},
};

void Log(Logger& logger, absl::string_view prefix,
         std::initializer_list<std::pair<absl::string_view, double>> metrics) {
  for (const auto& [name, value] : metrics) logger.Log(absl::StrCat(prefix, name), value);
}

double Number(int64_t count) { return static_cast<double>(count); }

}  // namespace

SystemMetricsMonitor::SystemMetricsMonitor(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

absl::Status SystemMetricsMonitor::Run(Event event, State& state, Logger& logger) {
  if (event == Event::kFitStart) {
    Start(state);
    return absl::OkStatus();
  }
  if (!logger.has_destinations() || clock_.Now() < next_) return absl::OkStatus();
  next_ = clock_.Now() + options_.interval;
  WarnOnce(LogMachine(state, logger));
  if (nvml_ != nullptr) WarnOnce(LogGpus(logger));
  return absl::OkStatus();
}

void SystemMetricsMonitor::Start(const State& state) {
  next_ = clock_.Now();
  if (const auto now = ReadCpuTimes(options_.proc); now.ok()) cpu_ = *now;
  auto nvml = Nvml::Load(options_.nvml_library);
  if (nvml.ok()) {
    nvml_ = *std::move(nvml);
  } else if (!state.identity.device.is_cpu()) {
    WarnOnce(nvml.status());
  }
}

absl::Status SystemMetricsMonitor::LogMachine(const State& state, Logger& logger) {
  ASSIGN_OR_RETURN(const CpuTimes cpu, ReadCpuTimes(options_.proc));
  if (cpu_.has_value() && cpu.total > cpu_->total) logger.Log("cpu_percentage", CpuPercent(*cpu_, cpu));
  cpu_ = cpu;
  ASSIGN_OR_RETURN(const MachineMemory memory, ReadMachineMemory(options_.proc));
  Log(logger, "cpu_memory_",
      {{"total", Number(memory.total)},
       {"available", Number(memory.available)},
       {"percent", memory.percent()},
       {"used", Number(memory.used)},
       {"free", Number(memory.free)},
       {"active", Number(memory.active)},
       {"inactive", Number(memory.inactive)},
       {"buffers", Number(memory.buffers)},
       {"cached", Number(memory.cached)},
       {"shared", Number(memory.shared)},
       {"slab", Number(memory.slab)}});
  ASSIGN_OR_RETURN(const DiskSpace disk,
                   ReadDiskSpace(state.identity.run_folder.empty() ? "/" : state.identity.run_folder));
  Log(logger, "disk_memory_",
      {{"total", Number(disk.total)},
       {"used", Number(disk.used)},
       {"free", Number(disk.free)},
       {"percent", disk.percent()}});
  ASSIGN_OR_RETURN(const NetworkCounters network, ReadNetworkCounters(options_.proc));
  Log(logger, "network_",
      {{"bytes_sent", Number(network.bytes_sent)},
       {"bytes_recv", Number(network.bytes_recv)},
       {"packets_sent", Number(network.packets_sent)},
       {"packets_recv", Number(network.packets_recv)},
       {"errin", Number(network.errin)},
       {"errout", Number(network.errout)},
       {"dropin", Number(network.dropin)},
       {"dropout", Number(network.dropout)}});
  return absl::OkStatus();
}

absl::Status SystemMetricsMonitor::LogGpus(Logger& logger) const {
  ASSIGN_OR_RETURN(const int count, nvml_->DeviceCount());
  absl::Status failed;
  for (const GpuMetric& metric : kGpuMetrics) {
    std::vector<GpuReading> readings;
    for (int device = 0; device < count; ++device) {
      const absl::StatusOr<double> value = metric.read(*nvml_, device);
      if (value.ok()) readings.push_back({device, *value});
      if (metric.optional && absl::IsUnimplemented(value.status())) continue;
      if (!value.ok() && failed.ok()) failed = Annotate(value.status(), metric.name);
    }
    if (readings.empty()) continue;
    if (options_.log_all_data) {
      for (const GpuReading& reading : readings)
        logger.Log(absl::StrCat(metric.name, "_rank_", reading.device), reading.value);
      continue;
    }
    const auto [least, most] = std::minmax_element(
        readings.begin(), readings.end(), [](const GpuReading& a, const GpuReading& b) { return a.value < b.value; });
    logger.Log(absl::StrCat("min_", metric.name), least->value);
    logger.Log(absl::StrCat("max_", metric.name), most->value);
  }
  return failed;
}

void SystemMetricsMonitor::WarnOnce(const absl::Status& status) {
  if (status.ok() || std::exchange(warned_, true)) return;
  LOG(WARNING) << "system_metrics_monitor: something is not measured: " << status;
}

}  // namespace composer
