// A driver library with two GPUs, the second of which is ill, for nvml.cc: the functions it looks up, as nvml.h has them.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

extern "C" {

struct Memory {
  unsigned long long total, free, used;
};

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::strncpy(text, "550.54", size);
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index == 2) return 15;  // NVML_ERROR_GPU_IS_LOST
  *device = reinterpret_cast<void*>(static_cast<uintptr_t>(index + 1));
  return 0;
}
int nvmlDeviceGetName(void*, char* text, unsigned size) {
  std::strncpy(text, "Fake H100", size);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  *memory = {80ull << 30, 0, device == reinterpret_cast<void*>(1) ? 0 : 40ull << 30};
  return 0;
}
int nvmlDeviceGetTemperature(void*, int, unsigned* degrees) {
  *degrees = 40;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* count) {
  if (kind != 1 || counter != 0) return 2;
  *count = device == reinterpret_cast<void*>(1) ? 0 : 5;
  return 0;
}
// nvmlDeviceGetCurrentClocksThrottleReasons is missing, as in an old driver.
}
