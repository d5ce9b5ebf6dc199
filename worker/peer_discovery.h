// Where the workers of a world learn of each other's nodes' memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "storage/object_store.h"
#include "worker/rank_environment.h"

namespace composer {

// The memory tier of this world, as a PeerStore; null when the launcher keeps none. All ranks call it. addresses: keys of
// its own, which never change once they are there; null with one rank. hub: the launcher's socket.
// Throws what the store throws.
std::shared_ptr<ObjectStore> OpenPeerMemory(const RankEnvironment& place, const std::shared_ptr<grpc::Channel>& hub,
                                            const c10::intrusive_ptr<c10d::Store>& addresses);

}  // namespace composer
