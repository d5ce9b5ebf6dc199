// SPDX-License-Identifier: Apache-2.0
#include "worker/peer_store.h"

#include <grpcpp/client_context.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

constexpr absl::Duration kShortCall = absl::Seconds(20);
constexpr absl::Duration kLongCall = absl::Minutes(10);

proto::RelayRequest RequestTo(const std::string& peer, const std::string& key) {
  proto::RelayRequest request;
  request.set_peer(peer);
  request.set_key(key);
  return request;
}

}  // namespace

PeerStore::PeerStore(const Options& options)
    : own_(options.folder),
      peers_(options.hub == nullptr ? std::vector<std::string>() : options.peers),
      relay_(peers_.empty() ? nullptr : proto::PeerRelay::NewStub(options.hub)) {}

absl::Status PeerStore::Put(const std::string& key, Pieces pieces) {
  RETURN_IF_ERROR(own_.Put(key, pieces));
  Copy(key);
  return absl::OkStatus();
}

absl::Status PeerStore::PutIfAbsent(const std::string& key, Pieces pieces) {
  RETURN_IF_ERROR(own_.PutIfAbsent(key, pieces));
  Copy(key);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> PeerStore::Size(const std::string& key) {
  const absl::StatusOr<int64_t> here = own_.Size(key);
  if (!absl::IsNotFound(here.status()) || peers_.empty()) return here;
  const absl::StatusOr<Whereabouts> there = Locate(key);
  return there.ok() ? absl::StatusOr<int64_t>(there->bytes) : there.status();
}

absl::Status PeerStore::Read(const std::string& key, int64_t offset, absl::Span<char> into) {
  RETURN_IF_ERROR(Fetch(key));
  return own_.Read(key, offset, into);
}

absl::StatusOr<std::vector<std::string>> PeerStore::List(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> own, own_.List(folder));
  std::set<std::string> keys(own.begin(), own.end());
  for (const std::string& peer : peers_) {
    ASSIGN_OR_RETURN(const proto::PeerObjects objects, ListAt(peer, folder));
    for (const proto::PeerObject& object : objects.objects()) keys.insert(object.key());
  }
  return std::vector<std::string>(keys.begin(), keys.end());
}

absl::Status PeerStore::Delete(const std::string& key) {
  RETURN_IF_ERROR(own_.Delete(key));
  return IsLeftover(key) ? absl::OkStatus() : RemoveAtPeers(key);
}

absl::Status PeerStore::DeleteTree(const std::string& folder) {
  RETURN_IF_ERROR(own_.DeleteTree(folder));
  return RemoveAtPeers(folder);
}

std::string PeerStore::Location(const std::string& key) const { return absl::StrCat("memory:/", key); }

void PeerStore::Copy(const std::string& key) {
  if (peers_.empty()) return;
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(kLongCall));
  proto::PeerDone done;
  const absl::Status status = FromGrpc(relay_->Push(&context, RequestTo(peers_.front(), key), &done));
  if (!status.ok() && !warned_.exchange(true))
    LOG(WARNING) << "snapshots are kept in this node's memory alone: " << peers_.front() << ": " << status.message();
}

absl::Status PeerStore::Fetch(const std::string& key) {
  const absl::Status here = own_.Size(key).status();
  if (!absl::IsNotFound(here) || peers_.empty()) return here;
  ASSIGN_OR_RETURN(const Whereabouts there, Locate(key));
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(kLongCall));
  proto::PeerDone done;
  return FromGrpc(relay_->Pull(&context, RequestTo(there.peer, key), &done));
}

absl::StatusOr<PeerStore::Whereabouts> PeerStore::Locate(const std::string& key) {
  {
    absl::MutexLock lock(&mutex_);
    const auto known = index_.find(key);
    if (known != index_.end()) return known->second;
  }
  const size_t slash = key.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : key.substr(0, slash);
  for (const std::string& peer : peers_) {
    ASSIGN_OR_RETURN(const proto::PeerObjects objects, ListAt(peer, folder));
    absl::MutexLock lock(&mutex_);
    for (const proto::PeerObject& object : objects.objects())
      index_.insert_or_assign(object.key(), Whereabouts{peer, object.bytes()});
  }
  absl::MutexLock lock(&mutex_);
  const auto found = index_.find(key);
  if (found != index_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat(Location(key), " is in no node's memory"));
}

absl::Status PeerStore::RemoveAtPeers(const std::string& key) {
  {
    absl::MutexLock lock(&mutex_);
    index_.clear();
  }
  absl::Status first;
  for (const std::string& peer : peers_) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(kShortCall));
    proto::PeerDone done;
    first.Update(FromGrpc(relay_->Remove(&context, RequestTo(peer, key), &done)));
  }
  return first;
}

absl::StatusOr<proto::PeerObjects> PeerStore::ListAt(const std::string& peer, const std::string& folder) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(kShortCall));
  proto::PeerObjects objects;
  RETURN_IF_ERROR(FromGrpc(relay_->List(&context, RequestTo(peer, folder), &objects)));
  return objects;
}

std::vector<int> PeersInOrder(int node_rank, int nodes) {
  std::vector<int> order;
  for (int i = 1; i < nodes; ++i) order.push_back((node_rank + i) % nodes);
  return order;
}

}  // namespace composer
