// What LibTorch asks of a device: the current one, streams and events.
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>

#include "tests/support/accelerator/device_allocator.h"
#include "tests/support/accelerator/install.h"
#include "tests/support/accelerator/machine.h"

namespace composer::mock {
namespace {

constexpr int kPoolStreams = kStreamsPerDevice - 1;  // handed out in turn, as CUDA's pool of 32 is

c10::Stream StreamOf(int stream) {
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(DeviceOf(stream)));
  return c10::Stream(c10::Stream::UNSAFE, device, stream % kStreamsPerDevice);
}

int IndexOf(const c10::Stream& stream) {
  return stream.device_index() * kStreamsPerDevice + static_cast<int>(stream.id());
}

class MockGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  MockGuard() = default;
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {c10::kCUDA, static_cast<c10::DeviceIndex>(CurrentDevice())}; }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) SetCurrentDevice(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { setDevice(device); }
  c10::Stream getStream(c10::Device device) const override { return StreamOf(CurrentStream(Index(device))); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return StreamOf(Index(device) * kStreamsPerDevice);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getNewStream(device, 0); }
  c10::Stream getNewStream(c10::Device device, int) const override {
    static std::array<std::atomic<int>, kDevices>& next = *new std::array<std::atomic<int>, kDevices>{};
    const int index = Index(device), turn = next[static_cast<size_t>(index)]++ % kPoolStreams;
    return StreamOf(index * kStreamsPerDevice + 1 + turn);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    SetCurrentStream(IndexOf(stream));
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    *static_cast<Event*>(*event) = Machine::Get().Record(IndexOf(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr || Machine::Get().ForgetsWait(IndexOf(stream), *static_cast<Event*>(event))) return;
    Machine::Get().Wait(IndexOf(stream), *static_cast<Event*>(event));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || Machine::Get().Query(*static_cast<Event*>(event));
  }
  bool queryStream(const c10::Stream& stream) const override {
    return Machine::Get().Query(Machine::Get().Record(IndexOf(stream)));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    if (Machine::Get().Forgets(ProgramCall::kHostWait)) return;
    Machine::Get().WaitForHost(Machine::Get().Record(IndexOf(stream)), "synchronize stream");
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr && !Machine::Get().Forgets(ProgramCall::kHostWait))
      Machine::Get().WaitForHost(*static_cast<Event*>(event), "synchronize event");
  }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    Machine::Get().WaitForDevice(device, "synchronize device");
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (!Machine::Get().Forgets(ProgramCall::kRecordStream)) MockDeviceAllocator::Get().recordStream(data, stream);
  }
  double elapsedTime(void*, void*, c10::DeviceIndex) const override { return 0; }

 private:
  static int Index(c10::Device device) { return device.has_index() ? device.index() : CurrentDevice(); }
};

}  // namespace

void InstallGuard() {
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)].store(new MockGuard);
}

}  // namespace composer::mock
