// Runs ranks as threads over the real single-host communicator: shared memory, and a background thread for each rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "trainer/collectives/host_communicator.h"
#include "trainer/collectives/shared_memory_transport.h"
#include "trainer/core/torch_status.h"

namespace composer {

// Must be called by all ranks of the store. inline_bytes is as in HostCommunicator::Options; -1 means that every
// collective runs in the background.
inline std::unique_ptr<HostCommunicator> ConnectSharedMemory(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                             int size, int64_t inline_bytes = -1) {
  const HostCommunicator::GroupFactory connect = [store](const std::string& name, int its_rank, int its_size) {
    c10d::PrefixStore own(name, store);
    auto transport = SharedMemoryTransport::Connect(
        own, {.rank = its_rank, .size = its_size, .slot_bytes = 1 << 16, .timeout = absl::Seconds(30)});
    ThrowIfError(transport.status());
    return *std::move(transport);
  };
  return std::make_unique<HostCommunicator>(connect("world", rank, size),
                                            HostCommunicator::Options{.inline_bytes = inline_bytes}, connect);
}

}  // namespace composer
