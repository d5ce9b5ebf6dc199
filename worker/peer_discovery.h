// Exchanges the addresses of the nodes' snapshot memory among the workers of a world.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "storage/object_store.h"
#include "trainer/collectives/rank_environment.h"

namespace composer {

// Returns the memory tier of this world as a PeerStore; null when the launcher keeps none. Must be called by all ranks.
// `addresses` is a store for keys that never change once set, used only for this; null with one rank. `hub` is the
// channel to the launcher's socket. Throws what the store throws.
std::shared_ptr<ObjectStore> OpenPeerMemory(const RankEnvironment& place, const std::shared_ptr<grpc::Channel>& hub,
                                            const c10::intrusive_ptr<c10d::Store>& addresses);

}  // namespace composer
