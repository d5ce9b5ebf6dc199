// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/system_metrics_monitor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/callbacks/monitors/values_over_ranks.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

constexpr uint64_t kThrottleAny =
    kThrottleHardware | kThrottleSoftwareThermal | kThrottleHardwareThermal | kThrottlePowerBrake;

struct GpuReading {
  int number = 0;  // the device's, or the rank's
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

void LogReadings(Logger& logger, const char* name, const std::vector<GpuReading>& readings, bool each) {
  if (readings.empty()) return;
  if (each) {
    for (const GpuReading& reading : readings) logger.Log(absl::StrCat(name, "_rank_", reading.number), reading.value);
    return;
  }
  const auto [least, most] = std::minmax_element(
      readings.begin(), readings.end(), [](const GpuReading& a, const GpuReading& b) { return a.value < b.value; });
  logger.Log(absl::StrCat("min_", name), least->value);
  logger.Log(absl::StrCat("max_", name), most->value);
}

bool IsFault(const GpuMetric& metric, const absl::Status& status) {
  return !status.ok() && !(metric.optional && absl::IsUnimplemented(status));
}

double Number(int64_t count) { return static_cast<double>(count); }

}  // namespace

SystemMetricsMonitor::SystemMetricsMonitor(Options options, const Clock& clock, Communicator* communicator)
    : options_(std::move(options)), clock_(clock), communicator_(communicator) {}

absl::Status SystemMetricsMonitor::Run(Event event, State& state, Logger& logger) {
  if (event == Event::kFitStart) {
    Start(state);
    return absl::OkStatus();
  }
  const int64_t every = options_.dist_aggregate_batch_interval;
  if (every > 0 && event == Event::kBatchStart && state.timestamp.batch % every == 0)
    RETURN_IF_ERROR(LogGpusOfAllRanks(state, logger));
  if (!logger.has_destinations() || clock_.Now() < next_) return absl::OkStatus();
  next_ = clock_.Now() + options_.interval;
  WarnOnce(LogMachine(state, logger));
  if (nvml_ != nullptr && every == 0) WarnOnce(LogGpus(logger));
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
      if (failed.ok() && IsFault(metric, value.status())) failed = Annotate(value.status(), metric.name);
    }
    LogReadings(logger, metric.name, readings, options_.log_all_data);
  }
  return failed;
}

// Every rank must come here, including those without a GPU or a logger.
absl::Status SystemMetricsMonitor::LogGpusOfAllRanks(const State& state, Logger& logger) {
  if (communicator_ == nullptr && state.identity.world_size > 1)
    return absl::FailedPreconditionError("system_metrics_monitor: other ranks' GPUs need the run's communicator");
  constexpr size_t kCount = std::size(kGpuMetrics);
  std::vector<double> own(kCount, std::numeric_limits<double>::quiet_NaN());
  absl::StatusOr<int> device = absl::NotFoundError("no GPU");
  if (nvml_ != nullptr) {
    device = nvml_->IndexOf(options_.gpu, options_.visible_devices);
    WarnOnce(device.status());
  }
  for (size_t i = 0; device.ok() && i < kCount; ++i) {
    const absl::StatusOr<double> value = kGpuMetrics[i].read(*nvml_, *device);
    if (value.ok()) own[i] = *value;
    if (IsFault(kGpuMetrics[i], value.status())) WarnOnce(Annotate(value.status(), kGpuMetrics[i].name));
  }
  const std::vector<double> all = ValuesOfAllRanks(own, communicator_);
  for (size_t i = 0; i < kCount; ++i) {
    std::vector<GpuReading> readings;
    for (size_t rank = 0; rank * kCount < all.size(); ++rank) {
      const double value = all[rank * kCount + i];
      if (!std::isnan(value)) readings.push_back({static_cast<int>(rank), value});
    }
    LogReadings(logger, kGpuMetrics[i].name, readings, options_.log_all_data);
  }
  return absl::OkStatus();
}

void SystemMetricsMonitor::WarnOnce(const absl::Status& status) {
  if (status.ok() || std::exchange(warned_, true)) return;
  LOG(WARNING) << "system_metrics_monitor: something is not measured: " << status;
}

}  // namespace composer
