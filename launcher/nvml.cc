// SPDX-License-Identifier: Apache-2.0
#include "launcher/nvml.h"

#include <dlfcn.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

using Device = void*;
struct Memory {
  unsigned long long total, free, used;
};
constexpr int kSuccess = 0;
constexpr int kTemperatureOfGpu = 0;
constexpr int kUncorrected = 1, kVolatile = 0;

// A function of the library; null when this driver lacks it.
template <typename... Arguments>
class Function {
 public:
  Function(void* library, const char* name) : call_(reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name))) {}
  bool operator()(Arguments... arguments) const { return call_ != nullptr && call_(arguments...) == kSuccess; }

 private:
  int (*call_)(Arguments...);
};

GpuFacts ReadGpu(void* library, Device device) {
  GpuFacts gpu;
  char name[96] = {};
  if (Function<Device, char*, unsigned>(library, "nvmlDeviceGetName")(device, name, sizeof(name) - 1)) gpu.name = name;
  Memory memory = {};
  if (Function<Device, Memory*>(library, "nvmlDeviceGetMemoryInfo")(device, &memory)) {
    gpu.memory_bytes = static_cast<int64_t>(memory.total);
    gpu.memory_used = static_cast<int64_t>(memory.used);
  }
  unsigned temperature = 0;
  if (Function<Device, int, unsigned*>(library, "nvmlDeviceGetTemperature")(device, kTemperatureOfGpu, &temperature)) {
    gpu.temperature = static_cast<int>(temperature);
  }
  unsigned long long count = 0;
  if (Function<Device, int, int, unsigned long long*>(library, "nvmlDeviceGetTotalEccErrors")(device, kUncorrected,
                                                                                              kVolatile, &count)) {
    gpu.ecc_errors = static_cast<int64_t>(count);
  }
  if (Function<Device, unsigned long long*>(library, "nvmlDeviceGetCurrentClocksThrottleReasons")(device, &count)) {
    gpu.throttle_reasons = count;
  }
  return gpu;
}

}  // namespace

NvmlFacts ReadNvml(const std::string& name) {
  NvmlFacts facts;
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    facts.error = absl::StrCat("cannot load ", name, ": the NVIDIA driver is not installed, or not visible in here");
    return facts;
  }
  const absl::Cleanup unload = [library] { dlclose(library); };
  if (!Function<>(library, "nvmlInit_v2")()) {
    facts.error = "NVML does not start: the driver is not loaded, or does not fit its library (nvidia-smi says more)";
    return facts;
  }
  const absl::Cleanup shut_down = [library] { Function<>(library, "nvmlShutdown")(); };
  char driver[96] = {};
  if (Function<char*, unsigned>(library, "nvmlSystemGetDriverVersion")(driver, sizeof(driver) - 1))
    facts.driver = driver;
  unsigned count = 0;
  if (!Function<unsigned*>(library, "nvmlDeviceGetCount_v2")(&count)) facts.error = "NVML does not count the GPUs";
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (Function<unsigned, Device*>(library, "nvmlDeviceGetHandleByIndex_v2")(i, &device)) {
      facts.gpus.push_back(ReadGpu(library, device));
    } else {
      facts.error = absl::StrCat("GPU ", i, " does not answer: it may have fallen off the bus (dmesg | grep Xid)");
    }
  }
  return facts;
}

}  // namespace composer
