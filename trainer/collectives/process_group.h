// This is the only file that uses ProcessGroupGloo: the Gloo process group of a world.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace composer {

struct GlooGroupOptions {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int world_size = 1;
  // All ranks can reach this machine at this address; it is empty if all ranks are on this machine. It is never
  // resolved from the host name, since /etc/hosts may say 127.0.1.1.
  std::string address;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  // of connecting and of each collective
};

// Connects all ranks with each other; all must call it. Throws c10::DistError when a peer does not come in time, the
// store's generation is over, or the address is not one of this machine. The process ignores SIGPIPE from here on,
// which Gloo raises when a peer is gone, unless it has a handler of its own. Threads: the first collectives of two
// groups of one process must not start at the same time, since c10d's flight recorder registers a new group without
// its lock (FlightRecorderDetail.hpp, 2.11). Ranks as threads set TORCH_FR_BUFFER_SIZE=0.
c10::intrusive_ptr<c10d::Backend> ConnectGlooGroup(const GlooGroupOptions& options);

// Keeps the group until the process ends. Its destructor would wait for collectives that may never complete (when a
// peer is gone): a worker that leaves by _exit calls this right after ConnectGlooGroup and lets the kernel close the
// sockets, which releases the peers at once.
void NeverDestroy(const c10::intrusive_ptr<c10d::Backend>& group);

}  // namespace composer
