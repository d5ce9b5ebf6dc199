// What a launcher that was killed and is started again on its host must still know: its name among the nodes, and the
// newest world that it has heard of. With a list of rendezvous hosts, nodes vote by being there (rendezvous/failover/quorum.h); one
// that forgot a world could help to form another beside it, behind a cut network. So each launcher of such a job keeps
// this in a small file of the registry folder (run_file.h), written before a world is answered.
//
// The file is of (job, list of hosts, --node_rank), and of the n-th launcher among those of the same on this host. Forgotten
// when the launcher ends in good order, and after kMemoryLasts without a running world: then the job is taken to be started anew.
// A host that loses the folder (a reboot that empties /tmp, a new container) has forgotten.
// Threads: any.
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
  // `identity`: text that is the same for each start of the same node of the same job. `fresh_id`: the node's name, if
  // there is nothing to remember. kResourceExhausted: more than 64 launchers of that identity are on this host.
  static absl::StatusOr<std::unique_ptr<NodeMemory>> Open(const std::string& registry, absl::string_view identity,
                                                          const std::string& fresh_id);
  // Keeps the file: a launcher that dies must not forget.
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  const std::string& node_id() const { return node_id_; }
  // As it was read; generation 0: nothing.
  const proto::MembershipRecord& record() const { return record_; }

  // On disk (not synced: a process may die, the host not) when it returns. Again once in a while, to show that its world
  // runs. An error is logged once: the job goes on.
  void Write(const proto::MembershipRecord& record);
  // The job has ended in good order here; nothing is written any more.
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

// What the file holds. Hostile input: anything else, or a name or world out of bounds, is nothing.
std::pair<std::string, proto::MembershipRecord> ParseNodeMemory(absl::string_view text);
std::string NodeMemoryText(const std::string& node_id, const proto::MembershipRecord& record);

}  // namespace composer
