// What a launcher that was killed and restarted on its host must still know: its name among the nodes, and the newest
// world that it has heard of. With a list of rendezvous hosts, nodes vote by being present
// (rendezvous/failover/quorum.h); one that forgot a world could help to form a second one beside it, across a network
// partition. So each launcher of such a job keeps this in a small file of the registry folder (run_file.h), written
// before a world is acknowledged.
//
// The file belongs to (job, list of hosts, --node_rank) and to the n-th launcher among equal ones on this host. It is
// forgotten when the launcher ends in good order, and after kMemoryLasts without a running world, when the job counts
// as newly started. A host that loses the folder (a reboot that empties /tmp, a new container) has forgotten.
// Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"

namespace composer {

inline constexpr absl::Duration kMemoryLasts = absl::Minutes(5);

class NodeMemory {
 public:
  // `identity` is a text that is equal for each start of the same node of the same job. `fresh_id` becomes the node's
  // name if nothing is remembered. Returns kResourceExhausted if more than 64 launchers of that identity are on this
  // host.
  static absl::StatusOr<std::unique_ptr<NodeMemory>> Open(const std::string& registry, absl::string_view identity,
                                                          const std::string& fresh_id);
  // Keeps the file, because a launcher that dies must not forget.
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  const std::string& node_id() const { return node_id_; }
  // Returns the record as it was read; generation 0 means that there was none.
  const proto::MembershipRecord& record() const { return record_; }

  // Writes the record to disk (not synced: a process may die, but not the host). Should be repeated now and
  // then, to show that its world runs. An error is logged once and the job goes on.
  void Write(const proto::MembershipRecord& record);
  // Forgets the job, which has ended in good order here; nothing is written any more.
  void Forget();

 private:
  NodeMemory(std::string path, int lock, std::string node_id, proto::MembershipRecord record);

  const std::string path_;
  const int lock_;
  const std::string node_id_;
  const proto::MembershipRecord record_;
  absl::Mutex mutex_;
  bool forgotten_ ABSL_GUARDED_BY(mutex_) = false;
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
};

// Parses the content of the file. The input is hostile: anything malformed, or a name out of bounds, yields an empty
// result. The record is not checked here, because the rendezvous checks it.
std::pair<std::string, proto::MembershipRecord> ParseNodeMemory(absl::string_view text);
std::string NodeMemoryText(const std::string& node_id, const proto::MembershipRecord& record);

}  // namespace composer
