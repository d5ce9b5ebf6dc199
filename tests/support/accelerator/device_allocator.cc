// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/device_allocator.h"

#include <c10/util/Exception.h>

#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace composer::mock {
namespace {

constexpr size_t kRound = 512;

using c10::CachingAllocator::StatType;
constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);

}  // namespace

// Never destroyed: tensors of static objects outlive everything else.
MockDeviceAllocator& MockDeviceAllocator::Get() {
  static MockDeviceAllocator& allocator = *new MockDeviceAllocator;
  return allocator;
}

MockDeviceAllocator::MockDeviceAllocator() {
  for (int i = 0; i < kDevices; ++i)
    devices_[static_cast<size_t>(i)].ranges[DeviceArena().begin() + static_cast<size_t>(i) * kDeviceBytes] =
        kDeviceBytes;
}

void MockDeviceAllocator::SetLimit(size_t bytes) {
  const auto lock = Machine::Get().Hold();
  limit_ = bytes;
}

void MockDeviceAllocator::Poison(const Block& block) {
  void* memory = DeviceArena().Kernel(reinterpret_cast<void*>(block.begin));
  Operation fill{"fill with NaN", {}, [memory, bytes = block.bytes] { std::memset(memory, 0xff, bytes); }};
  if (block.graph != nullptr) return Machine::Get().Launch(block.stream, std::move(fill));
  Machine::Get().LaunchBesides(block.stream, std::move(fill));
}

c10::DataPtr MockDeviceAllocator::allocate(size_t asked) {
  const int index = CurrentDevice(), stream = CurrentStream();
  const c10::Device place(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  if (asked == 0) return {nullptr, nullptr, &Free, place};
  const size_t bytes = (asked + kRound - 1) / kRound * kRound;
  Device& device = devices_[static_cast<size_t>(index)];
  auto lock = Machine::Get().Hold();
  const Tape* const tape = Machine::Get().TapeOf(index);
  const bool captured = tape != nullptr && tape->Takes(stream);
  if (tape == nullptr) CollectDone(device);  // asks events, as CUDA's does not during a capture
  Block* block = captured ? ForGraph(device, stream, bytes) : Reuse(device, stream, bytes);
  if (block == nullptr && tape == nullptr && device.reserved + bytes > limit_) {
    lock.unlock();
    emptyCache();
    lock.lock();
    ++device.stats.num_alloc_retries;
  }
  if (block == nullptr) block = Fresh(device, stream, bytes);
  if (block == nullptr) {
    ++device.stats.num_ooms;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ",
                     absl::StrFormat("%.2f MiB", static_cast<double>(bytes) / (1 << 20)), ". GPU ", index,
                     " (mock) has a limit of ", limit_, " bytes, of which ", device.reserved, " are in use");
  }
  block->asked = asked;
  if (!captured) Machine::Get().races().Born(block->begin, bytes);
  auto& stats = device.stats;
  stats.allocation[kAll].increase(1), stats.active[kAll].increase(1);
  stats.allocated_bytes[kAll].increase(bytes), stats.active_bytes[kAll].increase(bytes);
  stats.requested_bytes[kAll].increase(asked);
  void* address = reinterpret_cast<void*>(block->begin);
  const auto used = static_cast<size_t>(stats.allocated_bytes[kAll].current);
  lock.unlock();
  c10::reportMemoryUsageToProfiler(address, static_cast<int64_t>(bytes), used, device.reserved, place);
  return {address, block, &Free, place};
}

MockDeviceAllocator::Block* MockDeviceAllocator::Reuse(Device& device, int stream, size_t bytes) {
  const auto found = device.cached.find({stream, bytes});
  if (found == device.cached.end() || found->second.empty()) return nullptr;
  Block* block = found->second.back();
  found->second.pop_back();
  return block;
}

// A graph's block has one allocation, however often it is reused while the graph is captured: replays use it all.
MockDeviceAllocator::Block* MockDeviceAllocator::ForGraph(Device& device, int stream, size_t bytes) {
  GraphMemory& graph = *device.graph;
  std::vector<Block*>& free = graph.free[{stream, bytes}];
  Block* block = nullptr;
  if (!free.empty()) {
    block = free.back();
    free.pop_back();
  } else {
    block = Reuse(device, stream, bytes);
    if (block == nullptr) block = Fresh(device, stream, bytes);
    if (block == nullptr) return nullptr;
    block->graph = &graph;
    graph.blocks.push_back(block);
    Machine::Get().races().Born(block->begin, bytes);
  }
  block->used = true;
  return block;
}

std::shared_ptr<MockDeviceAllocator::GraphMemory> MockDeviceAllocator::OpenGraphMemory(int device) {
  const auto lock = Machine::Get().Hold();
  return devices_[static_cast<size_t>(device)].graph = std::make_shared<GraphMemory>();
}

void MockDeviceAllocator::CloseGraphMemory(int device) {
  const auto lock = Machine::Get().Hold();
  devices_[static_cast<size_t>(device)].graph.reset();
}

void MockDeviceAllocator::Release(GraphMemory& memory) {
  const auto lock = Machine::Get().Hold();
  for (Block* block : memory.blocks) {
    block->graph = nullptr;
    if (block->used) continue;
    Machine::Get().races().Died(block->begin);
    Cache(devices_[static_cast<size_t>(DeviceOf(block->stream))], block);
  }
  memory.blocks.clear();
  memory.free.clear();
}

MockDeviceAllocator::Block* MockDeviceAllocator::Fresh(Device& device, int stream, size_t bytes) {
  if (device.reserved + bytes > limit_) return nullptr;
  for (auto range = device.ranges.begin(); range != device.ranges.end(); ++range) {
    const auto [begin, free] = *range;
    if (free < bytes) continue;
    device.ranges.erase(range);
    if (free > bytes) device.ranges[begin + bytes] = free - bytes;
    device.reserved += bytes;
    device.stats.reserved_bytes[kAll].increase(bytes);
    device.stats.segment[kAll].increase(1);
    Block* block = new Block{begin, bytes, 0, stream, {}, {}};
    Poison(*block);
    return block;
  }
  return nullptr;
}

void MockDeviceAllocator::Free(void* block) {
  if (block != nullptr) Get().TakeBack(static_cast<Block*>(block));
}

// What other streams were recorded for is not reused within the graph, as CUDA's allocator does it.
void MockDeviceAllocator::TakeBackForGraph(Block* block) {
  block->used = false;
  const Tape* const tape = Machine::Get().TapeOf(DeviceOf(block->stream));
  if (tape == nullptr || !tape->Takes(block->stream)) return;  // after the capture: kept for the replays
  if (block->recorded.empty()) {
    Poison(*block);
    block->graph->free[{block->stream, block->bytes}].push_back(block);
  }
  block->recorded.clear();
}

void MockDeviceAllocator::TakeBack(Block* block) {
  Machine& machine = Machine::Get();
  auto lock = machine.Hold();
  const int index = DeviceOf(block->stream);
  Device& device = devices_[static_cast<size_t>(index)];
  if (block->graph != nullptr) {
    auto& own = device.stats;
    own.allocation[kAll].decrease(1), own.allocated_bytes[kAll].decrease(block->bytes);
    own.active[kAll].decrease(1), own.active_bytes[kAll].decrease(block->bytes);
    own.requested_bytes[kAll].decrease(block->asked);
    return TakeBackForGraph(block);
  }
  const Clock known = machine.ClockOf(block->stream);
  for (const Races::Past& past : machine.races().Users(block->begin)) {
    if (known.Knows(past.epoch) || machine.HostKnows(past.epoch) || block->recorded.contains(past.epoch.stream))
      continue;
    machine.Fault(absl::StrCat("memory of stream ", block->stream, " is freed while ", past.operation, " on stream ",
                               past.epoch.stream, " uses it; neither recordStream nor a wait protects it"));
  }
  machine.races().Died(block->begin);
  for (const int stream : block->recorded) block->pending.push_back(machine.RecordBesides(stream));
  block->recorded.clear();
  auto& stats = device.stats;
  stats.allocation[kAll].decrease(1), stats.allocated_bytes[kAll].decrease(block->bytes);
  stats.requested_bytes[kAll].decrease(block->asked);
  void* address = reinterpret_cast<void*>(block->begin);
  const auto bytes = static_cast<int64_t>(block->bytes);
  const auto used = static_cast<size_t>(stats.allocated_bytes[kAll].current);
  if (block->pending.empty()) {
    device.stats.active[kAll].decrease(1), device.stats.active_bytes[kAll].decrease(block->bytes);
    Cache(device, block);
  } else {
    device.waiting.push_back(block);
  }
  lock.unlock();
  c10::reportMemoryUsageToProfiler(address, -bytes, used, device.reserved,
                                   c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index)));
}

void MockDeviceAllocator::Cache(Device& device, Block* block) {
  Poison(*block);
  device.cached[{block->stream, block->bytes}].push_back(block);
}

void MockDeviceAllocator::CollectDone(Device& device) {
  std::erase_if(device.waiting, [&](Block* block) {
    std::erase_if(block->pending, [](const Event& event) { return event->done && Machine::Get().Query(event); });
    if (!block->pending.empty()) return false;
    device.stats.active[kAll].decrease(1), device.stats.active_bytes[kAll].decrease(block->bytes);
    Cache(device, block);
    return true;
  });
}

void MockDeviceAllocator::copy_data(void* to, const void* from, size_t bytes) const {
  void* kernel_to = DeviceArena().Kernel(to);
  const void* kernel_from = DeviceArena().Kernel(from);
  const auto begin = reinterpret_cast<uintptr_t>(to), source = reinterpret_cast<uintptr_t>(from);
  Machine::Get().Launch(CurrentStream(), {"copy_data",
                                          {{source, source + bytes, false}, {begin, begin + bytes, true}},
                                          [=] { std::memcpy(kernel_to, kernel_from, bytes); }});
}

// As CUDA does, it waits for the devices before memory goes back.
void MockDeviceAllocator::emptyCache(c10::MempoolId_t) {
  Machine& machine = Machine::Get();
  for (int index = 0; index < kDevices; ++index) {
    Device& device = devices_[static_cast<size_t>(index)];
    auto lock = machine.Hold();
    CollectDone(device);
    std::vector<Block*> blocks;
    for (auto& [key, list] : device.cached) blocks.insert(blocks.end(), list.begin(), list.end());
    device.cached.clear();
    lock.unlock();
    if (blocks.empty()) continue;
    std::set<int> streams;
    for (const Block* block : blocks) streams.insert(block->stream);
    for (const int stream : streams) machine.Drain(stream);
    lock.lock();
    for (Block* block : blocks) {
      device.reserved -= block->bytes;
      device.stats.reserved_bytes[kAll].decrease(block->bytes);
      device.stats.segment[kAll].decrease(1);
      auto range = device.ranges.emplace(block->begin, block->bytes).first;
      const auto next = std::next(range);
      if (next != device.ranges.end() && range->first + range->second == next->first) {
        range->second += next->second;
        device.ranges.erase(next);
      }
      if (range != device.ranges.begin() && std::prev(range)->first + std::prev(range)->second == range->first) {
        std::prev(range)->second += range->second;
        device.ranges.erase(range);
      }
      delete block;
    }
  }
}

void MockDeviceAllocator::recordStream(const c10::DataPtr& data, c10::Stream stream) {
  if (data.get_context() == nullptr || data.get_deleter() != &Free) return;
  const auto lock = Machine::Get().Hold();
  auto* block = static_cast<Block*>(data.get_context());
  const int index = stream.device_index() * kStreamsPerDevice + static_cast<int>(stream.id());
  if (index != block->stream) block->recorded.insert(index);
}

c10::CachingDeviceAllocator::DeviceStats MockDeviceAllocator::getDeviceStats(c10::DeviceIndex device) {
  const auto lock = Machine::Get().Hold();
  return devices_.at(static_cast<size_t>(device)).stats;
}

void MockDeviceAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  const auto lock = Machine::Get().Hold();
  auto& stats = devices_.at(static_cast<size_t>(device)).stats;
  for (auto* one : {&stats.allocation, &stats.segment, &stats.active, &stats.allocated_bytes, &stats.reserved_bytes,
                    &stats.active_bytes, &stats.requested_bytes})
    (*one)[kAll].reset_accumulated();
}

void MockDeviceAllocator::resetPeakStats(c10::DeviceIndex device) {
  const auto lock = Machine::Get().Hold();
  auto& stats = devices_.at(static_cast<size_t>(device)).stats;
  for (auto* one : {&stats.allocation, &stats.segment, &stats.active, &stats.allocated_bytes, &stats.reserved_bytes,
                    &stats.active_bytes, &stats.requested_bytes})
    (*one)[kAll].reset_peak();
}

std::pair<size_t, size_t> MockDeviceAllocator::getMemoryInfo(c10::DeviceIndex device) {
  const auto lock = Machine::Get().Hold();
  return {limit_ - devices_.at(static_cast<size_t>(device)).reserved, limit_};
}

}  // namespace composer::mock
