// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/copies.h"

#include <ATen/ATen.h>

#include <memory>

#include "tests/support/accelerator/machine.h"
#include "tests/support/accelerator/pinned_allocator.h"
#include "tests/support/accelerator/shadow.h"

namespace composer::mock {
namespace {

void Queue(const at::Tensor& to, const at::Tensor& from, const char* name, int stream, Shadows& views) {
  std::vector<Access> uses = views.TakeUses();
  Machine::Get().Launch(stream, {name, std::move(uses), [to, from] { at::Tensor(to).copy_(from); }});
}

// The copy runs on the source's stream, which waits for the target's before, and the target's for it after.
void BetweenDevices(at::Tensor& to, const at::Tensor& from) {
  Machine& machine = Machine::Get();
  const int there = CurrentStream(to.get_device()), here = CurrentStream(from.get_device());
  machine.Wait(here, machine.Record(there));
  Shadows views;
  const at::Tensor target = views.Of(to, true), source = views.Of(from, false);
  Queue(target, source, "copy between devices", here, views);
  machine.Wait(there, machine.Record(here));
}

void ToDevice(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  Machine& machine = Machine::Get();
  const int stream = CurrentStream(to.get_device());
  const bool later = non_blocking && IsPinned(from);
  {
    const auto lock = machine.Hold();
    Tape* const tape = machine.TapeOf(to.get_device());
    if (tape != nullptr && tape->Takes(stream) && !later)
      tape->Refuse("a copy to the device from memory that is not pinned, or that the host waits for");
  }
  Shadows views;
  const at::Tensor target = views.Of(to, true);
  // Pageable memory is read now; pinned memory without non_blocking too, since the call returns after the copy.
  const at::Tensor source = later ? views.Of(from, false) : from.clone();
  Queue(target, source, "copy to the device", stream, views);
  if (later) MockPinnedAllocator::Get().CopyLaunched(from.storage().data());
  if (IsPinned(from) && !non_blocking) machine.WaitForHost(machine.Record(stream), "copy to the device");
}

void ToHost(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  Machine& machine = Machine::Get();
  const int stream = CurrentStream(from.get_device());
  Shadows views;
  const at::Tensor source = views.Of(from, false);
  const bool pinned = IsPinned(to);
  const at::Tensor target = pinned ? views.Of(to, true) : to.detach();
  Queue(target, source, "copy to the host", stream, views);
  if (pinned) MockPinnedAllocator::Get().CopyLaunched(to.storage().data());
  if (!pinned || !non_blocking) machine.WaitForHost(machine.Record(stream), "copy to the host");
}

}  // namespace

at::Tensor& Copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (to.numel() == 0 && from.numel() == 0) return to;
  if (to.is_cuda() && from.is_cuda() && to.get_device() == from.get_device()) {
    Shadows views;
    const at::Tensor target = views.Of(to, true), source = views.Of(from, false);
    Queue(target, source, "copy", CurrentStream(to.get_device()), views);
  } else if (to.is_cuda() && from.is_cuda()) {
    BetweenDevices(to, from);
  } else if (to.is_cuda()) {
    ToDevice(to, from, non_blocking);
  } else {
    ToHost(to, from, non_blocking);
  }
  return to;
}

at::Scalar ReadScalar(const at::Tensor& tensor) {
  Machine& machine = Machine::Get();
  const int stream = CurrentStream(tensor.get_device());
  Shadows views;
  const at::Tensor source = views.Of(tensor, false);
  const auto value = std::make_shared<at::Scalar>();
  std::vector<Access> uses = views.TakeUses();
  machine.Launch(stream, {"item", std::move(uses), [value, source] { *value = source.item(); }});
  machine.WaitForHost(machine.Record(stream), "item");
  return *value;
}

}  // namespace composer::mock
