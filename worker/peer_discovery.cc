// SPDX-License-Identifier: Apache-2.0
#include "worker/peer_discovery.h"

#include "absl/strings/str_cat.h"
#include "worker/peer_store.h"

namespace composer {
namespace {

std::string AddressKey(int launcher) { return absl::StrCat("address/", launcher); }

}  // namespace

std::shared_ptr<ObjectStore> OpenPeerMemory(const RankEnvironment& place, const std::shared_ptr<grpc::Channel>& hub,
                                            const c10::intrusive_ptr<c10d::Store>& addresses) {
  if (place.peer_memory.empty()) return nullptr;
  PeerStore::Options options = {.folder = place.peer_memory, .hub = hub, .peers = {}};
  if (place.launchers > 1 && addresses != nullptr && !place.peer_address.empty()) {
    addresses->set(AddressKey(place.node_rank), place.peer_address);  // all workers of a node set the same value
    std::vector<std::string> keys;
    for (const int peer : PeersInOrder(place.node_rank, place.launchers)) keys.push_back(AddressKey(peer));
    for (const auto& value : addresses->multiGet(keys)) options.peers.emplace_back(value.begin(), value.end());
  }
  return std::make_shared<PeerStore>(options);
}

}  // namespace composer
