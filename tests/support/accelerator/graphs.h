// Graphs of the mock's streams, as CUDA has them: while a graph is captured, what is launched is kept and does not run;
// a replay launches it all again, on the same streams in the order of the program.
//
// An error of the capture, as with CUDA: a wait of the host, or a question whether an event is done; a copy from or to
// memory of the host that is not pinned and non-blocking; an operation on a stream that is not captured; a wait for
// something that was recorded before; a stream that has not come back to the first at the end. Besides, an operator
// whose shapes no earlier call has shown, since the mock cannot run it. At a replay, a fault: memory that the graph
// uses and that was freed after the capture, even if it is in use again.
//
// Random operators draw when they run, from the generator as it is then: the numbers of an eager run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/accelerator/device_allocator.h"
#include "tests/support/accelerator/machine.h"
#include "trainer/step/device_graph.h"

namespace composer::mock {

// The steps of a captured program.
struct TapeEntry {
  enum class Kind { kLaunch, kRecord, kWait } kind;
  int stream;
  Operation operation = {};             // kLaunch
  std::vector<uint64_t> allocations{};  // of each of its uses
  Event event = nullptr;                // kRecord and kWait: which one, at the capture
};

// Of one device: the calling thread's current one.
class MockGraphs final : public GraphCapture {
 public:
  MockGraphs();
  ~MockGraphs() override;
  void Begin() override;
  std::unique_ptr<DeviceGraph> End() override;
  void Abandon() override;

 private:
  class Recording;
  std::shared_ptr<MockDeviceAllocator::GraphMemory> memory_;
  std::unique_ptr<Recording> recording_;
  int device_ = 0;
};

}  // namespace composer::mock
