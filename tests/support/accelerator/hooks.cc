// What LibTorch asks of CUDA as a whole: devices, generators, pinned memory.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/detail/CUDAHooksInterface.h>

#include <vector>

#include "tests/support/accelerator/device_allocator.h"
#include "tests/support/accelerator/generator.h"
#include "tests/support/accelerator/install.h"
#include "tests/support/accelerator/pinned_allocator.h"

namespace composer::mock {

const at::Generator& DefaultGenerator(c10::DeviceIndex device) {
  static const std::vector<at::Generator>& generators = *new std::vector<at::Generator>([] {
    std::vector<at::Generator> made;
    for (int i = 0; i < kDevices; ++i)
      made.push_back(at::make_generator<MockGenerator>(static_cast<c10::DeviceIndex>(i)));
    return made;
  }());
  return generators.at(static_cast<size_t>(device < 0 ? CurrentDevice() : device));
}

at::Generator InnerGenerator(const std::optional<at::Generator>& generator) {
  const at::Generator& chosen = generator.has_value() && generator->defined() ? *generator : DefaultGenerator(-1);
  return static_cast<MockGenerator*>(chosen.unsafeGetGeneratorImpl())->inner();
}

void InstallHostSide() { at::setHostAllocator(at::kCUDA, &MockPinnedAllocator::Get()); }

}  // namespace composer::mock

namespace at {

using composer::mock::Machine;

class MockHooks final : public CUDAHooksInterface {
 public:
  explicit MockHooks(CUDAHooksArgs) {}
  void init() const override {}
  const Generator& getDefaultGenerator(DeviceIndex device) const override {
    return composer::mock::DefaultGenerator(device);
  }
  Generator getNewGenerator(DeviceIndex device) const override {
    return make_generator<composer::mock::MockGenerator>(
        device < 0 ? static_cast<DeviceIndex>(composer::mock::CurrentDevice()) : device);
  }
  Device getDeviceFromPtr(void* data) const override {
    const auto offset = reinterpret_cast<uintptr_t>(data) - composer::mock::DeviceArena().begin();
    return {kCUDA, static_cast<DeviceIndex>(offset / composer::mock::kDeviceBytes)};
  }
  bool isPinnedPtr(const void* data) const override { return composer::mock::PinnedArena().Contains(data); }
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex current_device() const override { return static_cast<DeviceIndex>(composer::mock::CurrentDevice()); }
  DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(DeviceIndex device) const override { composer::mock::SetCurrentDevice(device); }
  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    const DeviceIndex before = current_device();
    if (device >= 0) composer::mock::SetCurrentDevice(device);
    return before;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return exchangeDevice(device); }
  Allocator* getPinnedMemoryAllocator() const override { return &composer::mock::MockPinnedAllocator::Get(); }
  Allocator* getCUDADeviceAllocator() const override { return &composer::mock::MockDeviceAllocator::Get(); }
  std::string showConfig() const override { return "mock accelerator"; }
  int getNumGPUs() const override { return composer::mock::kDevices; }
  DeviceIndex deviceCount() const override { return composer::mock::kDevices; }
  void deviceSynchronize(DeviceIndex device) const override {
    Machine::Get().WaitForDevice(device, "synchronize device");
  }
};

// The registry's key is fixed.
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, MockHooks);

}  // namespace at
