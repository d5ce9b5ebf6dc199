// Pinned host memory. While a copy uses a block and the host has not waited for it, the host may not touch it: the
// pages are protected (all access while the device writes, writing while it reads), so a touch too early crashes in
// every run. Freed blocks are reused when their copies are done.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include <map>
#include <vector>

#include "tests/support/accelerator/machine.h"

namespace composer::mock {

class MockPinnedAllocator final : public at::HostAllocator {
 public:
  static MockPinnedAllocator& Get();

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  bool record_event(void* address, void* context, c10::Stream stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  // A copy that uses the block of this address was launched.
  void CopyLaunched(const void* address);

 private:
  struct Block {
    uintptr_t begin = 0;
    size_t bytes = 0;
    int protection = 3;  // PROT_READ | PROT_WRITE
    std::vector<Event> pending;
  };
  MockPinnedAllocator();
  static void Free(void* block);
  void TakeBack(Block* block);
  void Protect(Block& block);
  void CollectDone();

  uintptr_t next_;
  std::map<uintptr_t, Block*> blocks_;  // in use, by address
  std::map<size_t, std::vector<Block*>> cached_;
  std::vector<Block*> waiting_;
};

}  // namespace composer::mock
