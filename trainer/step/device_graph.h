// The seam between a training step and a device that can record what is queued on its streams, to queue it again later
// as one piece (CUDA graphs). Implementations: worker/cuda/cuda_graphs.h, and the mock accelerator's
// (tests/support/accelerator/graphs.h).
//
// What is recorded does not run: the host must not wait for the device, ask whether it is done, or read from it.
// Kernels get the addresses and numbers of the recording again at each replay; only what their memory holds may change.
// Memory allocated while recording is the graph's own and is kept until the graph is destroyed; other memory that it
// uses must live as long. Random numbers go on at each replay as if the operators had been called again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace composer {

class DeviceGraph {
 public:
  // Must not be destroyed before the device has finished its last replay.
  virtual ~DeviceGraph() = default;
  // Queues it on the current stream. Does not wait.
  virtual void Replay() = 0;
};

// Threads: the training thread. Autograd's threads are recorded with it.
class GraphCapture {
 public:
  virtual ~GraphCapture() = default;
  // Begins to record the current stream, and all that comes to wait for it. Throws c10::Error.
  virtual void Begin() = 0;
  // Ends the recording. Throws c10::Error that says what of it a graph cannot hold; it is then over as after Abandon.
  virtual std::unique_ptr<DeviceGraph> End() = 0;
  // Ends a recording in which something was thrown, and forgets it. Does not throw.
  virtual void Abandon() = 0;
};

}  // namespace composer
