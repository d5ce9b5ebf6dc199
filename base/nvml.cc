// SPDX-License-Identifier: Apache-2.0
#include "base/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// Types and codes of nvml.h, with the same layout.
using Device = void*;
struct NvmlMemory {
  unsigned long long total, free, used;  // NOLINT(runtime/int): NVML's ABI
};
struct NvmlUtilization {
  unsigned int gpu, memory;
};
struct NvmlProcess {
  unsigned int pid;
  unsigned long long used_memory;  // NOLINT(runtime/int)
  unsigned int gpu_instance, compute_instance;
};
struct NvmlEvent {
  Device device;
  unsigned long long type, data;  // NOLINT(runtime/int)
  unsigned int gpu_instance, compute_instance;
};
constexpr int kSuccess = 0, kNotSupported = 3, kInsufficientSize = 7;
constexpr unsigned long long kXidEvent = 8;  // NOLINT(runtime/int)
constexpr size_t kMostEvents = 1000;
constexpr int kTemperatureOfGpu = 0;
constexpr int kUncorrected = 1, kVolatile = 0;
constexpr unsigned int kNameBytes = 96;
constexpr auto kNotAvailable = ~0ULL;

}  // namespace

struct Nvml::Functions {
  ~Functions() {
    if (started) shutdown();
    dlclose(library);
  }

  void* library = nullptr;
  bool started = false;
  int (*init)();
  int (*shutdown)();
  const char* (*error_string)(int);
  int (*count)(unsigned int*);
  int (*handle)(unsigned int, Device*);
  int (*name)(Device, char*, unsigned int);
  int (*uuid)(Device, char*, unsigned int);
  int (*memory)(Device, NvmlMemory*);
  int (*utilization)(Device, NvmlUtilization*);
  int (*temperature)(Device, int, unsigned int*);
  int (*power)(Device, unsigned int*);
  int (*processes)(Device, unsigned int*, NvmlProcess*);
  // These are null when the driver lacks them.
  int (*driver_version)(char*, unsigned int);
  int (*ecc_errors)(Device, int, int, unsigned long long*);  // NOLINT(runtime/int)
  int (*throttle_reasons)(Device, unsigned long long*);      // NOLINT(runtime/int)
  int (*remapped_rows)(Device, unsigned int*, unsigned int*, unsigned int*, unsigned int*);
  int (*event_set)(void**);
  int (*free_events)(void*);
  int (*register_events)(Device, unsigned long long, void*);  // NOLINT(runtime/int)
  int (*wait_for_event)(void*, NvmlEvent*, unsigned int);
  int (*index)(Device, unsigned int*);
};

namespace {

// Returns false when the library does not have the symbol.
template <typename Function>
bool Find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Load(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return absl::NotFoundError(absl::StrCat("no NVIDIA driver: ", reason == nullptr ? library.c_str() : reason));
  }
  auto functions = std::make_unique<Functions>();
  functions->library = handle;
  Functions& f = *functions;
  const bool complete =
      Find(handle, "nvmlInit_v2", f.init) && Find(handle, "nvmlShutdown", f.shutdown) &&
      Find(handle, "nvmlErrorString", f.error_string) && Find(handle, "nvmlDeviceGetCount_v2", f.count) &&
      Find(handle, "nvmlDeviceGetHandleByIndex_v2", f.handle) && Find(handle, "nvmlDeviceGetName", f.name) &&
      Find(handle, "nvmlDeviceGetUUID", f.uuid) && Find(handle, "nvmlDeviceGetMemoryInfo", f.memory) &&
      Find(handle, "nvmlDeviceGetUtilizationRates", f.utilization) &&
      Find(handle, "nvmlDeviceGetTemperature", f.temperature) && Find(handle, "nvmlDeviceGetPowerUsage", f.power) &&
      (Find(handle, "nvmlDeviceGetComputeRunningProcesses_v3", f.processes) ||
       Find(handle, "nvmlDeviceGetComputeRunningProcesses_v2", f.processes));
  Find(handle, "nvmlSystemGetDriverVersion", f.driver_version);
  Find(handle, "nvmlDeviceGetTotalEccErrors", f.ecc_errors);
  Find(handle, "nvmlDeviceGetCurrentClocksThrottleReasons", f.throttle_reasons);
  Find(handle, "nvmlDeviceGetRemappedRows", f.remapped_rows);
  const bool has_events =
      Find(handle, "nvmlEventSetCreate", f.event_set) && Find(handle, "nvmlEventSetFree", f.free_events) &&
      Find(handle, "nvmlDeviceRegisterEvents", f.register_events) &&
      Find(handle, "nvmlEventSetWait_v2", f.wait_for_event) && Find(handle, "nvmlDeviceGetIndex", f.index);
  if (!has_events) f.event_set = nullptr;
  if (!complete) return absl::UnavailableError(absl::StrCat(library, " is older than driver 450"));
  auto nvml = std::unique_ptr<Nvml>(new Nvml(std::move(functions)));
  RETURN_IF_ERROR(nvml->Check(f.init(), "nvmlInit"));
  f.started = true;
  return nvml;
}

Nvml::Nvml(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}
Nvml::~Nvml() {
  if (events_ != nullptr) functions_->free_events(events_);
}

absl::Status Nvml::Check(int code, absl::string_view call) const {
  if (code == kSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(call, ": ", functions_->error_string(code));
  return code == kNotSupported ? absl::UnimplementedError(message) : absl::UnavailableError(message);
}

absl::StatusOr<void*> Nvml::Handle(int device) const {
  Device handle = nullptr;
  RETURN_IF_ERROR(Check(functions_->handle(static_cast<unsigned int>(device), &handle), absl::StrCat("GPU ", device)));
  return handle;
}

absl::StatusOr<std::string> Nvml::DriverVersion() const {
  if (functions_->driver_version == nullptr) return absl::UnimplementedError("this driver does not tell its version");
  char text[kNameBytes] = "";
  RETURN_IF_ERROR(Check(functions_->driver_version(text, kNameBytes), "nvmlSystemGetDriverVersion"));
  return std::string(text);
}

absl::StatusOr<int> Nvml::DeviceCount() const {
  unsigned int count = 0;
  RETURN_IF_ERROR(Check(functions_->count(&count), "nvmlDeviceGetCount"));
  return static_cast<int>(count);
}

absl::StatusOr<std::string> Nvml::Name(int device) const {
  ASSIGN_OR_RETURN(Device handle, Handle(device));
  char text[kNameBytes] = "";
  RETURN_IF_ERROR(Check(functions_->name(handle, text, kNameBytes), "nvmlDeviceGetName"));
  return std::string(text);
}

absl::StatusOr<std::string> Nvml::Uuid(int device) const {
  ASSIGN_OR_RETURN(Device handle, Handle(device));
  char text[kNameBytes] = "";
  RETURN_IF_ERROR(Check(functions_->uuid(handle, text, kNameBytes), "nvmlDeviceGetUUID"));
  return std::string(text);
}

absl::StatusOr<Nvml::Memory> Nvml::MemoryOf(int device) const {
  ASSIGN_OR_RETURN(Device handle, Handle(device));
  NvmlMemory memory{};
  RETURN_IF_ERROR(Check(functions_->memory(handle, &memory), "nvmlDeviceGetMemoryInfo"));
  return Memory{static_cast<int64_t>(memory.total), static_cast<int64_t>(memory.used),
                static_cast<int64_t>(memory.free)};
}

absl::StatusOr<Nvml::Utilization> Nvml::UtilizationOf(int device) const {
  ASSIGN_OR_RETURN(Device handle, Handle(device));
  NvmlUtilization rates{};
  RETURN_IF_ERROR(Check(functions_->utilization(handle, &rates), "nvmlDeviceGetUtilizationRates"));
  return Utilization{static_cast<int>(rates.gpu), static_cast<int>(rates.memory)};
}

absl::StatusOr<int> Nvml::TemperatureCelsius(int device) const {
  ASSIGN_OR_RETURN(Device handle, Handle(device));
  unsigned int degrees = 0;
  RETURN_IF_ERROR(Check(functions_->temperature(handle, kTemperatureOfGpu, &degrees), "nvmlDeviceGetTemperature"));
  return static_cast<int>(degrees);
}

absl::StatusOr<double> Nvml::PowerWatts(int device) const {
  ASSIGN_OR_RETURN(Device handle, Handle(device));
  unsigned int milliwatts = 0;
  RETURN_IF_ERROR(Check(functions_->power(handle, &milliwatts), "nvmlDeviceGetPowerUsage"));
  return milliwatts / 1e3;
}

absl::StatusOr<int64_t> Nvml::MemoryErrors(int device) const {
  if (functions_->ecc_errors == nullptr) return absl::UnimplementedError("this driver does not count memory errors");
  ASSIGN_OR_RETURN(Device handle, Handle(device));
  unsigned long long count = 0;  // NOLINT(runtime/int)
  RETURN_IF_ERROR(
      Check(functions_->ecc_errors(handle, kUncorrected, kVolatile, &count), "nvmlDeviceGetTotalEccErrors"));
  return static_cast<int64_t>(count);
}

absl::StatusOr<uint64_t> Nvml::ThrottleReasons(int device) const {
  if (functions_->throttle_reasons == nullptr)
    return absl::UnimplementedError("this driver does not tell of slow-downs");
  ASSIGN_OR_RETURN(Device handle, Handle(device));
  unsigned long long reasons = 0;  // NOLINT(runtime/int)
  RETURN_IF_ERROR(Check(functions_->throttle_reasons(handle, &reasons), "nvmlDeviceGetCurrentClocksThrottleReasons"));
  return static_cast<uint64_t>(reasons);
}

absl::StatusOr<Nvml::RemappedRows> Nvml::RowsOf(int device) const {
  if (functions_->remapped_rows == nullptr) return absl::UnimplementedError("this driver does not tell of rows");
  ASSIGN_OR_RETURN(Device handle, Handle(device));
  unsigned int corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  RETURN_IF_ERROR(Check(functions_->remapped_rows(handle, &corrected, &uncorrected, &pending, &failed),
                        "nvmlDeviceGetRemappedRows"));
  return RemappedRows{pending != 0, failed != 0};
}

absl::Status Nvml::StartEvents() {
  if (functions_->event_set == nullptr) return absl::UnimplementedError("this driver does not tell of events");
  RETURN_IF_ERROR(Check(functions_->event_set(&events_), "nvmlEventSetCreate"));
  ASSIGN_OR_RETURN(const int count, DeviceCount());
  absl::Status first = absl::UnimplementedError("no GPU reports events");
  bool any = false;
  for (int device = 0; device < count; ++device) {
    const absl::StatusOr<void*> handle = Handle(device);
    if (!handle.ok()) continue;
    const absl::Status status =
        Check(functions_->register_events(*handle, kXidEvent, events_), "nvmlDeviceRegisterEvents");
    any = any || status.ok();
    if (!status.ok()) first = status;
  }
  return any ? absl::OkStatus() : first;
}

std::vector<Nvml::XidEvent> Nvml::TakeXids() {
  std::vector<XidEvent> xids;
  NvmlEvent event{};
  while (events_ != nullptr && xids.size() < kMostEvents &&
         functions_->wait_for_event(events_, &event, /*milliseconds=*/0) == kSuccess) {
    unsigned int index = 0;
    if (event.type != kXidEvent || functions_->index(event.device, &index) != kSuccess) continue;
    xids.push_back({static_cast<int>(index), static_cast<int>(event.data)});
  }
  return xids;
}

absl::StatusOr<std::vector<Nvml::Process>> Nvml::Processes(int device) const {
  ASSIGN_OR_RETURN(Device handle, Handle(device));
  std::vector<NvmlProcess> raw(32);
  auto count = static_cast<unsigned int>(raw.size());
  int code = functions_->processes(handle, &count, raw.data());
  if (code == kInsufficientSize) {
    raw.resize(count + 32);
    count = static_cast<unsigned int>(raw.size());
    code = functions_->processes(handle, &count, raw.data());
  }
  RETURN_IF_ERROR(Check(code, "nvmlDeviceGetComputeRunningProcesses"));
  std::vector<Process> processes;
  for (unsigned int i = 0; i < count && i < raw.size(); ++i) {
    const bool told = raw[i].used_memory != kNotAvailable;
    processes.push_back({raw[i].pid, told ? static_cast<int64_t>(raw[i].used_memory) : -1});
  }
  std::sort(processes.begin(), processes.end(),
            [](const Process& a, const Process& b) { return a.memory_bytes > b.memory_bytes; });
  return processes;
}

absl::StatusOr<int> Nvml::IndexOf(int cuda_index, absl::string_view visible_devices) const {
  ASSIGN_OR_RETURN(const int count, DeviceCount());
  const auto missing = [&] {
    return absl::OutOfRangeError(
        absl::StrCat("no GPU ", cuda_index, " among ", count, " with CUDA_VISIBLE_DEVICES=", visible_devices));
  };
  if (visible_devices.empty()) return cuda_index < count ? absl::StatusOr<int>(cuda_index) : missing();
  const std::vector<absl::string_view> entries = absl::StrSplit(visible_devices, ',');
  if (cuda_index < 0 || static_cast<size_t>(cuda_index) >= entries.size()) return missing();
  const absl::string_view entry = absl::StripAsciiWhitespace(entries[static_cast<size_t>(cuda_index)]);
  int number = -1;
  if (absl::SimpleAtoi(entry, &number)) return number >= 0 && number < count ? absl::StatusOr<int>(number) : missing();
  if (absl::StartsWith(entry, "MIG-")) return absl::UnimplementedError(absl::StrCat("GPU partition ", entry));
  for (int device = 0; device < count; ++device) {
    ASSIGN_OR_RETURN(const std::string uuid, Uuid(device));
    if (!entry.empty() && absl::StartsWith(uuid, entry)) return device;
  }
  return missing();
}

}  // namespace composer
