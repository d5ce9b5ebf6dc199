// The devices' memory: a caching allocator that gives a freed block to the next request of its size and stream at once
// (last in, first out), fills it with NaN when it is freed, and runs out of memory at a limit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <array>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "tests/support/accelerator/machine.h"

namespace composer::mock {

class MockDeviceAllocator final : public c10::DeviceAllocator {
 public:
  static MockDeviceAllocator& Get();
  // Bytes of used and cached blocks per device; at most kDeviceBytes.
  void SetLimit(size_t bytes);

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override;
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t pool = {0, 0}) override;
  // As recordStream: the block is not reused before what is queued on the stream is done.
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;

  // A graph's own memory. While a device has one open, captured streams allocate there, and what they free is reused
  // there only.
  struct GraphMemory;
  std::shared_ptr<GraphMemory> OpenGraphMemory(int device);
  void CloseGraphMemory(int device);
  // Gives it back: what is free now, and the rest when it is freed. Nothing queued may use it.
  void Release(GraphMemory& memory);

 private:
  struct Block {
    uintptr_t begin = 0;
    size_t bytes = 0, asked = 0;
    int stream = 0;
    std::set<int> recorded;        // other streams that use it
    std::vector<Event> pending;    // that must be done before it is reused
    GraphMemory* graph = nullptr;  // whose own it is
    bool used = true;              // of a graph's own
  };
  struct Device {
    std::map<uintptr_t, size_t> ranges;  // free addresses: begin to bytes
    std::map<std::pair<int, size_t>, std::vector<Block*>> cached;
    std::vector<Block*> waiting;
    size_t reserved = 0;
    std::shared_ptr<GraphMemory> graph;  // open
    c10::CachingDeviceAllocator::DeviceStats stats;
  };

  MockDeviceAllocator();
  static void Free(void* block);
  void TakeBack(Block* block);
  static void TakeBackForGraph(Block* block);
  Block* Reuse(Device& device, int stream, size_t bytes);
  Block* Fresh(Device& device, int stream, size_t bytes);
  Block* ForGraph(Device& device, int stream, size_t bytes);
  void Cache(Device& device, Block* block);
  void CollectDone(Device& device);
  static void Poison(const Block& block);

  std::array<Device, kDevices> devices_;
  size_t limit_ = kDeviceBytes;
};

struct MockDeviceAllocator::GraphMemory {
  std::vector<Block*> blocks;
  std::map<std::pair<int, size_t>, std::vector<Block*>> free;
};

}  // namespace composer::mock
