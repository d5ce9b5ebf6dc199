// Counts the bytes of the tensors that a thread allocates and frees, as c10's allocators report them, and their peak.
// Earlier allocations are not counted, nor is their release.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace composer {

// Counts while it lives, on the thread that made it. On a CPU, backward runs there, too.
class TensorBytes {
 public:
  TensorBytes() : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}
  int64_t live() const { return counter_->live; }
  int64_t peak() const { return counter_->peak; }

 private:
  struct Counter final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* ptr, int64_t bytes, size_t, size_t, c10::Device) override {
      if (bytes > 0) {
        sizes[ptr] = bytes;
        live += bytes;
        peak = std::max(peak, live);
      } else if (const auto found = sizes.find(ptr); found != sizes.end()) {
        live -= found->second;
        sizes.erase(found);
      }
    }
    bool memoryProfilingEnabled() const override { return true; }
    int64_t live = 0, peak = 0;
    std::unordered_map<void*, int64_t> sizes;
  };
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace composer
