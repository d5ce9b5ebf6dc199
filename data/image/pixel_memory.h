// Memory for pixels. A thread keeps the largest block that it has freed for its next image: memory that is fresh from
// the kernel comes page by page, which can take as long as decoding a photograph into it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace composer {

void* TakePixelMemory(size_t bytes);
// Any thread may free what another has taken.
void FreePixelMemory(void* memory);

// Elements that get no value are left as their memory is.
template <typename T>
struct PixelAllocator {
  using value_type = T;

  T* allocate(size_t count) { return static_cast<T*>(TakePixelMemory(count * sizeof(T))); }
  void deallocate(T* memory, size_t /*count*/) { FreePixelMemory(memory); }
  template <typename U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <typename U, typename... Values>
  void construct(U* place, Values&&... values) {
    ::new (static_cast<void*>(place)) U(std::forward<Values>(values)...);
  }
  bool operator==(const PixelAllocator&) const = default;
};

}  // namespace composer
