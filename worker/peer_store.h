// Snapshots in the memory of the job's nodes as an ObjectStore: the fast, small tier of checkpoints beside save_folder.
// launcher/peer_memory/peer_memory.h is the other side.
//
// An object is written into the memory of this node and of the next node of the world; List, Size and Read cover those
// of all nodes (an object that is not here is copied here before it is read); Delete reaches all nodes. So nothing is
// lost if any one node is lost, or several of which no two are neighbours.
//
// It promises less than other stores: "durable" means in memory; if the next node cannot be reached, there is a warning
// and no copy; PutIfAbsent is exclusive only among this node's workers (a checkpoint's manifest is written by rank 0
// alone). Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "proto/peer_memory.grpc.pb.h"
#include "storage/local_store.h"
#include "storage/object_store.h"

namespace composer {

class PeerStore final : public ObjectStore {
 public:
  struct Options {
    std::string folder;                  // this node's memory; shared by its workers and its launcher
    std::shared_ptr<grpc::Channel> hub;  // the launcher's PeerRelay; null: there are no peers
    std::vector<std::string> peers;      // addresses of the world's other nodes; the first one gets copies
  };
  explicit PeerStore(const Options& options);

  absl::Status Put(const std::string& key, Pieces pieces) override;
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override;
  absl::StatusOr<int64_t> Size(const std::string& key) override;
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status Delete(const std::string& key) override;
  absl::Status DeleteTree(const std::string& folder) override;
  std::string Location(const std::string& key) const override;

 private:
  struct Whereabouts {
    std::string peer;
    int64_t bytes;
  };
  void Copy(const std::string& key);
  // Returns which peer has the object. Asks the peers once for each folder, and again for a key that none had;
  // kNotFound.
  absl::StatusOr<Whereabouts> Locate(const std::string& key);
  // Copies the object here unless it is already here; kNotFound when no node has it.
  absl::Status Fetch(const std::string& key);
  absl::Status RemoveAtPeers(const std::string& key);
  absl::StatusOr<proto::PeerObjects> ListAt(const std::string& peer, const std::string& folder);

  LocalStore own_;
  const std::vector<std::string> peers_;
  const std::unique_ptr<proto::PeerRelay::Stub> relay_;  // null: no peers
  std::atomic<bool> warned_ = false;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Whereabouts> index_ ABSL_GUARDED_BY(mutex_);  // for the folders asked for
};

// Returns the nodes after `node_rank` in a world of `nodes`, the next one first, without the node itself: {2, 0} for
// node 1 of 3. Pure.
std::vector<int> PeersInOrder(int node_rank, int nodes);

}  // namespace composer
