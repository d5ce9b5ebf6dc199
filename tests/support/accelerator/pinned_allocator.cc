// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/pinned_allocator.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <cstring>
#include <set>

namespace composer::mock {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

MockPinnedAllocator& MockPinnedAllocator::Get() {
  static MockPinnedAllocator& allocator = *new MockPinnedAllocator;
  return allocator;
}

MockPinnedAllocator::MockPinnedAllocator() : next_(PinnedArena().begin()) {
  Machine::Get().OnHostWait([this] {
    for (auto& [begin, block] : blocks_) {
      if (block->protection != (PROT_READ | PROT_WRITE)) Protect(*block);
    }
  });
}

c10::DataPtr MockPinnedAllocator::allocate(size_t asked) {
  if (asked == 0) return {nullptr, nullptr, &Free, c10::kCPU};
  const size_t bytes = (asked + kPage - 1) / kPage * kPage;
  const auto lock = Machine::Get().Hold();
  CollectDone();
  auto& free = cached_[bytes];
  Block* block = nullptr;
  if (!free.empty()) {
    block = free.back();
    free.pop_back();
  } else {
    TORCH_CHECK(next_ + bytes <= PinnedArena().begin() + PinnedArena().size(), "mock accelerator: no pinned memory");
    block = new Block{next_, bytes, PROT_READ | PROT_WRITE, {}};
    next_ += bytes;
  }
  void* address = reinterpret_cast<void*>(block->begin);
  std::memset(PinnedArena().Kernel(address), 0xff, bytes);
  blocks_[block->begin] = block;
  Machine::Get().races().Born(block->begin, bytes);
  return {address, block, &Free, c10::kCPU};
}

void MockPinnedAllocator::Free(void* block) {
  if (block != nullptr) Get().TakeBack(static_cast<Block*>(block));
}

void MockPinnedAllocator::TakeBack(Block* block) {
  Machine& machine = Machine::Get();
  const auto lock = machine.Hold();
  std::set<int> streams;
  for (const Races::Past& past : machine.races().Users(block->begin)) {
    if (!machine.HostKnows(past.epoch)) streams.insert(past.epoch.stream);
  }
  for (const int stream : streams) block->pending.push_back(machine.Record(stream));
  machine.races().Died(block->begin);
  blocks_.erase(block->begin);
  waiting_.push_back(block);
}

void MockPinnedAllocator::CollectDone() {
  std::erase_if(waiting_, [&](Block* block) {
    std::erase_if(block->pending, [](const Event& event) { return event->done.load(); });
    if (!block->pending.empty()) return false;
    block->protection = PROT_READ | PROT_WRITE;
    mprotect(reinterpret_cast<void*>(block->begin), block->bytes, block->protection);
    cached_[block->bytes].push_back(block);
    return true;
  });
}

void MockPinnedAllocator::CopyLaunched(const void* address) {
  const auto lock = Machine::Get().Hold();
  const auto after = blocks_.upper_bound(reinterpret_cast<uintptr_t>(address));
  if (after != blocks_.begin()) Protect(*std::prev(after)->second);
}

void MockPinnedAllocator::Protect(Block& block) {
  Machine& machine = Machine::Get();
  int protection = PROT_READ | PROT_WRITE;
  for (const Races::Past& past : machine.races().Users(block.begin)) {
    if (!machine.HostKnows(past.epoch)) protection &= past.access.writes ? PROT_NONE : PROT_READ;
  }
  if (protection == block.protection) return;
  block.protection = protection;
  mprotect(reinterpret_cast<void*>(block.begin), block.bytes, protection);
}

}  // namespace composer::mock
