// A fake driver library for tests: two GPUs, of which the second is hot, shared, has memory errors and does not
// measure its power. The second has replaced a row of memory in vain, and reports the Xids of the variable
// FAKE_XIDS: "31,79" at once, ",79" when it is asked for the second time. With LOST_GPU there is a third one that
// has fallen off the bus, and the driver is too old to report slow-downs.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int code) { return code == 3 ? "Not Supported" : "Invalid Argument"; }
int nvmlSystemGetDriverVersion(char* text, unsigned int size) { return snprintf(text, size, "550.54"), 0; }
#ifdef LOST_GPU
int nvmlDeviceGetCount_v2(unsigned int* count) { return *count = 3, 0; }
#else
int nvmlDeviceGetCount_v2(unsigned int* count) { return *count = 2, 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) { return *reasons = 0x40, 0; }
struct Event {
  void* device;
  unsigned long long type, data;
  unsigned int gpu_instance, compute_instance;
};
int nvmlEventSetCreate(void** set) { return *set = new void*, 0; }
int nvmlEventSetFree(void* set) { return delete static_cast<void**>(set), 0; }
int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void* set) {
  *static_cast<void**>(set) = device;
  return types == 8 ? 0 : 2;
}
int nvmlEventSetWait_v2(void* set, Event* event, unsigned int milliseconds) {
  const char* xids = getenv("FAKE_XIDS");
  if (xids == nullptr || *xids == 0 || milliseconds != 0) return 10;
  char* end = nullptr;
  *event = {*static_cast<void**>(set), 8, strtoull(xids, &end, 10), 0, 0};
  const bool none = end == xids;
  char rest[64] = "";
  snprintf(rest, sizeof(rest), "%s", *end == ',' ? end + 1 : end);
  setenv("FAKE_XIDS", rest, 1);
  return none ? 10 : 0;
}
int nvmlDeviceGetIndex(void* device, unsigned int* index) {
  return *index = static_cast<unsigned>(reinterpret_cast<uintptr_t>(device)) - 1, 0;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned int* corrected, unsigned int* uncorrected, unsigned int* pending,
                              unsigned int* failed) {
  *corrected = *uncorrected = *pending = *failed = reinterpret_cast<uintptr_t>(device) == 2 ? 1 : 0;
  return 0;
}
#endif
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  if (index >= 2) return 2;
  *device = reinterpret_cast<void*>(static_cast<uintptr_t>(index) + 1);
  return 0;
}
static int Index(void* device) { return static_cast<int>(reinterpret_cast<uintptr_t>(device)) - 1; }
int nvmlDeviceGetName(void* device, char* name, unsigned int size) {
  return snprintf(name, size, "NVIDIA H100 80GB HBM3"), 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned int size) {
  return snprintf(uuid, size, "GPU-%dabc", Index(device)), 0;
}
struct Memory {
  unsigned long long total, free, used;
};
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  *memory = {80'000'000'000, 5'000'000'000, 75'000'000'000};
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* count) {
  if (kind != 1 || counter != 0) return 2;
  *count = Index(device) == 0 ? 0 : 5;
  return 0;
}
struct Utilization {
  unsigned int gpu, memory;
};
int nvmlDeviceGetUtilizationRates(void* device, Utilization* rates) {
  *rates = {Index(device) == 0 ? 40U : 90U, 10};
  return 0;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned int* degrees) {
  *degrees = 50 + 20 * static_cast<unsigned>(Index(device));
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned int* milliwatts) {
  if (Index(device) == 1) return 3;
  return *milliwatts = 350'500, 0;
}
struct Process {
  unsigned int pid;
  unsigned long long memory;
  unsigned int gpu_instance, compute_instance;
};
// The second GPU has forty, which is more than the caller's first guess.
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned int* count, Process* processes) {
  const unsigned int there = Index(device) == 0 ? 2 : 40;
  const unsigned int room = *count;
  *count = there;
  if (room < there) return 7;
  for (unsigned int i = 0; i < there; ++i) processes[i] = {1000 + i, (i + 1) * 1'000'000'000ULL, 0, 0};
  processes[0].memory = ~0ULL;
  return 0;
}
}
