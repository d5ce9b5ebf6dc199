// HostTransport runs blocking collectives over plain memory among the ranks of one group, for HostCommunicator.
// Implementations: SharedMemoryTransport (one host), C10dTransport (Gloo).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/collectives/collective_call.h"

namespace composer {

// Threads: one at a time may be in Run; Abort may be called from any.
class HostTransport {
 public:
  virtual ~HostTransport() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // Runs one collective to its end; sums have the order of TreeSum. n = call.numel elements of call.dtype:
  //   all-reduce      output [n] in place (input == output)
  //   all-gather      input [n] -> output [world_size * n]; input may be this rank's own part of output
  //   reduce-scatter  input [world_size * n] -> output [n]; output may be this rank's own part of input
  //   broadcast       output [n] in place
  // Throws StatusError: kUnavailable (a peer is gone), kDeadlineExceeded (a peer did not come in time), kInternal (the
  // ranks are in different collectives, where the transport can detect it). The group is unusable afterwards.
  virtual void Run(const CollectiveCall& call, const void* input, void* output) = 0;
  // Makes the running collective and all later ones fail soon, where the transport can do that.
  virtual void Abort() = 0;
  // Returns whether an aborted collective continues in a backend and may still write to its memory, which then must
  // never be freed. Must be called on the thread of Run.
  virtual bool abandoned() const { return false; }
};

}  // namespace composer
