// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/memory/memory_pickle.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "checkpoint/torch_files/pickle_writer.h"

namespace composer {
namespace {

struct Block {
  int64_t bytes = 0;
  int device = 0, stack = 0;
};

// CPU allocations are shown as those of device 0 or, when there is a GPU 0, of a device number after the GPUs'.
int DeviceNumber(const AllocationEvent& event, int cpu) { return event.device < 0 ? cpu : event.device; }

const char* ActionName(AllocationEvent::Kind kind) {
  switch (kind) {
    case AllocationEvent::Kind::kAlloc:
      return "alloc";
    case AllocationEvent::Kind::kFree:
      return "free_completed";
    case AllocationEvent::Kind::kOutOfMemory:
      return "oom";
  }
  return "";
}

void WriteFrames(const std::vector<std::string>& stack, PickleWriter& out) {
  out.String("frames");
  out.BeginList();
  for (const std::string& name : stack) {
    out.BeginDict();
    out.Entry("name", name);
    out.Entry("filename", "composer");
    out.Entry("line", 0);
    out.EndDict();
  }
  out.EndList();
}

void WriteEvent(const AllocationHistory& history, const AllocationEvent& event, absl::string_view action,
                PickleWriter& out) {
  out.BeginDict();
  out.Entry("action", action);
  if (event.kind == AllocationEvent::Kind::kOutOfMemory) {
    out.Entry("device_free", 0);
  } else {
    out.Entry("addr", static_cast<int64_t>(event.address));
  }
  out.Entry("size", event.bytes);
  out.Entry("stream", 0);
  out.Entry("time_us", event.microseconds);
  WriteFrames(history.stacks[static_cast<size_t>(event.stack)], out);
  out.EndDict();
}

void WriteSegment(uint64_t address, const Block& block, const std::vector<std::string>& stack, PickleWriter& out) {
  out.BeginDict();
  out.Entry("device", block.device);
  out.Entry("address", static_cast<int64_t>(address));
  for (const char* size : {"total_size", "allocated_size", "active_size", "requested_size"})
    out.Entry(size, block.bytes);
  out.Entry("stream", 0);
  out.Entry("segment_type", "large");
  out.String("segment_pool_id");
  out.BeginList();
  out.Int(0), out.Int(0);
  out.EndList();
  out.Entry("is_expandable", 0);
  out.String("frames");
  out.BeginList(), out.EndList();
  out.String("blocks");
  out.BeginList();
  out.BeginDict();
  out.Entry("address", static_cast<int64_t>(address));
  out.Entry("size", block.bytes);
  out.Entry("requested_size", block.bytes);
  out.Entry("state", "active_allocated");
  WriteFrames(stack, out);
  out.EndDict();
  out.EndList();
  out.EndDict();
}

}  // namespace

std::string MemorySnapshotPickle(const AllocationHistory& history) {
  int gpus = 0;
  for (const AllocationEvent& event : history.events) gpus = std::max(gpus, event.device + 1);
  std::map<uint64_t, Block> live;
  for (const AllocationEvent& event : history.events) {
    if (event.kind == AllocationEvent::Kind::kAlloc)
      live[event.address] = {event.bytes, DeviceNumber(event, gpus), event.stack};
    if (event.kind == AllocationEvent::Kind::kFree) live.erase(event.address);
  }
  PickleWriter out;
  out.BeginDict();
  out.String("segments");
  out.BeginList();
  for (const auto& [address, block] : live)
    WriteSegment(address, block, history.stacks[static_cast<size_t>(block.stack)], out);
  out.EndList();
  out.String("device_traces");
  out.BeginList();
  for (int device = 0; device <= gpus; ++device) {
    out.BeginList();
    for (const AllocationEvent& event : history.events) {
      if (DeviceNumber(event, gpus) != device) continue;
      if (event.kind == AllocationEvent::Kind::kFree) WriteEvent(history, event, "free_requested", out);
      WriteEvent(history, event, ActionName(event.kind), out);
    }
    out.EndList();
  }
  out.EndList();
  out.String("allocator_settings");
  out.BeginDict(), out.EndDict();
  out.String("external_annotations");
  out.BeginList(), out.EndList();
  out.EndDict();
  return std::move(out).Finish();
}

}  // namespace composer
