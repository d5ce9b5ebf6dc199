// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/op_trace.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "trainer/core/torch_status.h"
#include "trainer/profiler/operator_clip.h"

namespace composer {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

std::set<ActivityType> Activities() {
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (at::hasCUDA()) activities.insert(ActivityType::CUDA);
  return activities;
}

ProfilerConfig Config(const OpTrace::Options& options) {
  return ProfilerConfig(ProfilerState::KINETO, options.record_shapes, options.profile_memory, /*with_stack=*/false,
                        options.with_flops);
}

int DeviceOf(const kineto::KinetoEvent& event) { return event.deviceType() == at::kCPU ? -1 : event.deviceIndex(); }

std::string ShapesOf(const kineto::KinetoEvent& event) {
  if (!event.hasShapes() || event.shapes().empty()) return "";
  std::string json = "[";
  for (const std::vector<int64_t>& shape : event.shapes()) {
    absl::StrAppend(&json, json.size() > 1 ? "," : "", "[", absl::StrJoin(shape, ","), "]");
  }
  return json + "]";
}

OpEvent FromKineto(const kineto::KinetoEvent& event, bool with_shapes) {
  OpEvent op;
  op.name = event.name();
  op.begin_ns = static_cast<int64_t>(event.startNs());
  op.duration_ns = static_cast<int64_t>(event.durationNs());
  op.thread = event.startThreadId();
  op.device = DeviceOf(event);
  op.stream = event.deviceResourceId();
  op.flops = event.flops();
  if (with_shapes) op.shapes = ShapesOf(event);
  op.id = event.correlationId();
  op.launcher = event.linkedCorrelationId();
  return op;
}

// Returns the bytes that tensors hold on each GPU now.
std::vector<std::pair<int, int64_t>> DeviceMemory() {
  std::vector<std::pair<int, int64_t>> result;
  if (!at::hasCUDA()) return result;
  c10::DeviceAllocator* allocator = c10::getDeviceAllocator(at::kCUDA);
  if (!allocator->initialized()) return result;
  const int device = at::globalContext().getAcceleratorHooksInterface(at::kCUDA).getCurrentDevice();
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = allocator->getDeviceStats(static_cast<c10::DeviceIndex>(device));
  result.emplace_back(device, stats.allocated_bytes[kAll].current);
  return result;
}

}  // namespace

OpTrace::~OpTrace() {
  if (is_running_) (void)CatchTorch([] { kineto::disableProfiler(); });
}

absl::Status OpTrace::Prepare() {
  if (is_prepared_) return absl::OkStatus();
  RETURN_IF_ERROR(CatchTorch([&] { kineto::prepareProfiler(Config(options_), Activities()); }));
  is_prepared_ = true;
  return absl::OkStatus();
}

absl::Status OpTrace::Start() {
  RETURN_IF_ERROR(Prepare());
  RETURN_IF_ERROR(CatchTorch([&] {
    memory_at_begin_ = DeviceMemory();
    kineto::enableProfiler(Config(options_), Activities());
  }));
  is_running_ = true;
  return absl::OkStatus();
}

absl::Status OpTrace::StopInto(Window& window) {
  if (!is_running_) return absl::OkStatus();
  is_running_ = is_prepared_ = false;
  return CatchTorch([&] {
    const auto result = kineto::disableProfiler();
    window.memory_at_begin = std::move(memory_at_begin_);
    window.ops.reserve(result->events().size());
    for (const kineto::KinetoEvent& event : result->events()) {
      if (event.name() == "[memory]") {
        window.memory.push_back({static_cast<int64_t>(event.startNs()), event.nBytes(), DeviceOf(event)});
      } else {
        window.ops.push_back(FromKineto(event, options_.record_shapes));
      }
    }
    ClipToSpans(window.spans, window.ops);
  });
}

}  // namespace composer
