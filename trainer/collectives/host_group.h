// How the CPU ranks of a group talk: through shared memory when all are on one host, else over Gloo.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/collectives/host_communicator.h"

namespace composer {

enum class HostCollectives {
  kAuto,          // shared memory if all ranks of the group can, else Gloo
  kGloo,          // always Gloo
  kSharedMemory,  // shared memory, or an error that says why not
};

struct HostGroupOptions {
  c10::intrusive_ptr<c10d::Store> store;  // keys of this world only, written once
  // Where ranks note their collectives with check_calls: keys change. Null: nowhere.
  c10::intrusive_ptr<c10d::Store> changing_store;
  HostCollectives collectives = HostCollectives::kAuto;
  std::string address;                                           // as GlooGroupOptions
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  // of connecting and of each collective
  bool check_calls = false;    // Gloo: compare the ranks' calls before each collective. Shared memory always does
  bool never_destroy = false;  // Gloo: as NeverDestroy, for all groups that are split off too
};

// The communicator of `size` >= 2 ranks; all of them call it. It can be split. Throws c10::DistError as
// ConnectGlooGroup, and StatusError kFailedPrecondition when shared memory was asked for and cannot be had.
std::unique_ptr<Communicator> ConnectHostGroup(const HostGroupOptions& options, int rank, int size);

}  // namespace composer
