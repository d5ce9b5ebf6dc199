// SPDX-License-Identifier: Apache-2.0
#include "trainer/memory/allocation_recorder.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>

#include "absl/time/clock.h"

namespace composer {
namespace {

// These are the operations running on this thread, outermost first. Names live as long as their operations.
thread_local std::vector<const char*> operations_under_way;

std::unique_ptr<at::ObserverContext> PushOperation(const at::RecordFunction& record) {
  operations_under_way.push_back(record.name());
  return nullptr;
}

void PopOperation(const at::RecordFunction& record, at::ObserverContext* context) {
  if (!operations_under_way.empty()) operations_under_way.pop_back();
}

}  // namespace

// Called by allocators on any thread; must not allocate tensors or throw. The object in this place must be a profiler's
// state, since torch asks it whether it is profiling: this one says no.
class AllocationRecorder::Hook final : public torch::profiler::impl::ProfilerStateBase {
 public:
  explicit Hook(int64_t max_entries)
      : ProfilerStateBase(torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::Disabled)),
        max_entries_(static_cast<size_t>(std::max<int64_t>(1, max_entries))) {}

  void reportMemoryUsage(void* ptr, int64_t alloc_size, size_t total_allocated, size_t total_reserved,
                         c10::Device device) override {
    AllocationEvent event;
    event.kind = alloc_size >= 0 ? AllocationEvent::Kind::kAlloc : AllocationEvent::Kind::kFree;
    event.address = reinterpret_cast<uint64_t>(ptr);
    event.bytes = std::abs(alloc_size);
    Add(event, total_allocated, total_reserved, device);
  }
  void reportOutOfMemory(int64_t alloc_size, size_t total_allocated, size_t total_reserved,
                         c10::Device device) override {
    AllocationEvent event;
    event.kind = AllocationEvent::Kind::kOutOfMemory;
    event.bytes = alloc_size;
    Add(event, total_allocated, total_reserved, device);
  }
  bool memoryProfilingEnabled() const override { return enabled_.load(std::memory_order_relaxed); }
  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::NONE;
  }

  void set_enabled(bool enabled) { enabled_.store(enabled, std::memory_order_relaxed); }
  void set_phase(const char* phase) { phase_.store(phase, std::memory_order_relaxed); }

  AllocationHistory History() const {
    const std::lock_guard lock(mutex_);
    AllocationHistory history;
    history.events.assign(events_.begin(), events_.end());
    history.stacks.resize(stacks_.size());
    for (const auto& [stack, number] : stacks_) history.stacks[static_cast<size_t>(number)] = stack;
    history.dropped = dropped_;
    return history;
  }

 private:
  void Add(AllocationEvent event, size_t total_allocated, size_t total_reserved, c10::Device device) {
    event.total_allocated = static_cast<int64_t>(total_allocated);
    event.total_reserved = static_cast<int64_t>(total_reserved);
    event.microseconds = absl::GetCurrentTimeNanos() / 1000;
    event.device = device.is_cpu() ? -1 : std::max<int>(0, device.index());
    std::vector<std::string> stack(operations_under_way.rbegin(), operations_under_way.rend());
    stack.emplace_back(phase_.load(std::memory_order_relaxed));
    const std::lock_guard lock(mutex_);
    event.stack = stacks_.try_emplace(std::move(stack), static_cast<int>(stacks_.size())).first->second;
    events_.push_back(event);
    if (events_.size() <= max_entries_) return;
    events_.pop_front();
    ++dropped_;
  }

  const size_t max_entries_;
  std::atomic<bool> enabled_{false};
  std::atomic<const char*> phase_{"outside of a step"};
  mutable std::mutex mutex_;
  std::deque<AllocationEvent> events_;
  std::map<std::vector<std::string>, int> stacks_;
  int64_t dropped_ = 0;
};

AllocationRecorder::AllocationRecorder(int64_t max_entries) : hook_(std::make_shared<Hook>(max_entries)) {}

AllocationRecorder::~AllocationRecorder() { Stop(); }

absl::Status AllocationRecorder::Start() {
  constexpr auto kPlace = c10::DebugInfoKind::PROFILER_STATE;
  if (running_) return absl::OkStatus();
  if (c10::ThreadLocalDebugInfo::get(kPlace) != nullptr)
    return absl::FailedPreconditionError("allocations can't be recorded while a profiler records");
  c10::ThreadLocalDebugInfo::_push(kPlace, hook_);
  operations_under_way.clear();
  operations_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(PushOperation, PopOperation)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE}));
  hook_->set_enabled(true);
  running_ = true;
  return absl::OkStatus();
}

void AllocationRecorder::Stop() {
  if (!running_) return;
  constexpr auto kPlace = c10::DebugInfoKind::PROFILER_STATE;
  running_ = false;
  hook_->set_enabled(false);
  at::removeCallback(operations_);
  operations_under_way.clear();
  // If something else lies on top, only that may remove itself: the hook then stays, switched off.
  if (c10::ThreadLocalDebugInfo::get(kPlace) != hook_.get()) return;
  try {
    c10::ThreadLocalDebugInfo::_pop(kPlace);
  } catch (const c10::Error&) {
    // An entry of another kind is on top.
  }
}

void AllocationRecorder::SetPhase(const char* phase) { hook_->set_phase(phase); }

AllocationHistory AllocationRecorder::History() const { return hook_->History(); }

}  // namespace composer
