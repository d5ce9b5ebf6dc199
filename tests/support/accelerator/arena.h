// Memory that is mapped twice. Tensors point into a view that the host may not touch; kernels use the other, which is
// always readable and writable. So a stray host access crashes the test at once, without a page protected per kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace composer::mock {

class Arena {
 public:
  // Reserves `bytes` of address space; memory is taken when it is first used. With `host_may_touch` the view of tensors
  // begins readable and writable. Aborts when the system refuses.
  Arena(const char* name, size_t bytes, bool host_may_touch);
  uintptr_t begin() const { return begin_; }
  size_t size() const { return size_; }
  bool Contains(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    return at >= begin_ && at < begin_ + size_;
  }
  // The kernels' address of an address of the arena.
  void* Kernel(const void* address) const {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) - begin_ + kernel_begin_);
  }

 private:
  uintptr_t begin_ = 0, kernel_begin_ = 0;
  size_t size_;
};

// The memory of all devices (kDeviceBytes each, in their order) and pinned host memory. Both live as long as the
// process.
inline constexpr int kDevices = 4;
inline constexpr size_t kDeviceBytes = size_t{4} << 30;
const Arena& DeviceArena();
const Arena& PinnedArena();

// Says on stderr what was touched when the host crashes on one of the arenas; then the crash goes on.
void ExplainCrashes();

}  // namespace composer::mock
