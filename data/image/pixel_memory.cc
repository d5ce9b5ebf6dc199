// SPDX-License-Identifier: Apache-2.0
#include "data/image/pixel_memory.h"

#include <cstdint>
#include <utility>

namespace composer {
namespace {

constexpr size_t kLeast = size_t{128} << 10, kMost = size_t{64} << 20;  // bytes of a block that is kept
constexpr size_t kSizeBytes = 64;                                       // before a block, where its size is
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define COMPOSER_KEEPS_NO_PIXELS  // so that it sees who writes behind an image
#endif
#endif
#ifdef COMPOSER_KEEPS_NO_PIXELS
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif

size_t& SizeOf(void* block) { return *static_cast<size_t*>(block); }

// Trivial, so that images may be freed while a thread ends; Ending frees what it keeps.
thread_local void* kept = nullptr;
thread_local bool ended = false;

struct Ending {
  ~Ending() {
    ended = true;
    ::operator delete(kept);
    kept = nullptr;
  }
};

}  // namespace

void* TakePixelMemory(size_t bytes) {
  void* block = kept;
  // A block is not used for much less than it has.
  if (block != nullptr && SizeOf(block) >= bytes && SizeOf(block) / 4 <= bytes) {
    kept = nullptr;
  } else {
    block = ::operator new(kSizeBytes + bytes);
    SizeOf(block) = bytes;
  }
  return static_cast<uint8_t*>(block) + kSizeBytes;
}

void FreePixelMemory(void* memory) {
  void* block = static_cast<uint8_t*>(memory) - kSizeBytes;
  const size_t bytes = SizeOf(block);
  if (kKeeps && !ended && bytes >= kLeast && bytes <= kMost && (kept == nullptr || SizeOf(kept) < bytes)) {
    thread_local Ending ending;
    static_cast<void>(ending);
    std::swap(block, kept);
  }
  ::operator delete(block);
}

}  // namespace composer
