// A host group is how the CPU ranks of a group communicate: through shared memory when all are on one host, else over
// Gloo.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/collectives/host_communicator.h"

namespace composer {

enum class HostCollectives {
  kAuto,          // shared memory if all ranks of the group can use it, else Gloo
  kGloo,          // always Gloo
  kSharedMemory,  // shared memory, or an error that gives the reason
};

struct HostGroupOptions {
  c10::intrusive_ptr<c10d::Store> store;  // keys of this world only, written once
  // This is where ranks record their collectives with check_calls; its keys change. May be null.
  c10::intrusive_ptr<c10d::Store> changing_store;
  HostCollectives collectives = HostCollectives::kAuto;
  std::string address;                                           // same as in GlooGroupOptions
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  // of connecting and of each collective
  bool check_calls = false;    // Gloo: compare the ranks' calls before each collective (shared memory always does)
  bool never_destroy = false;  // Gloo: apply NeverDestroy to this group and all that are split off
};

// Returns the communicator of `size` >= 2 ranks; all of them must call it. It can be split. Throws c10::DistError as
// ConnectGlooGroup does, and StatusError kFailedPrecondition when shared memory was requested but is not available.
std::unique_ptr<Communicator> ConnectHostGroup(const HostGroupOptions& options, int rank, int size);

}  // namespace composer
