// This launcher's link to the rendezvous: joins generations without blocking the caller, and finds the rendezvous again
// after losing it, whether it was restarted in place or is served by the next host of the list
// (rendezvous/failover/succession.h). Workers go on while it is away; on its return it learns what this node knows of
// the running world and of its keys. One caller, and one thread of its own; the handlers run on other threads and must
// not block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "launcher/rendezvous/prober.h"
#include "rendezvous/client.h"
#include "rendezvous/failover/succession.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/store/key_value_upstream.h"
#include "rendezvous/worlds/timeouts.h"

namespace composer {

// Where the rendezvous may be.
struct RendezvousPlaces {
  std::vector<std::string> servers;  // "host:port" in the order of takeover; empty means the client's address
  int self = -1;                     // this node's index in `servers`; -1 if it is not on the list
  bool hosted = true;                // nodes of the job run the servers; false for a separate `composer serve`
  absl::Duration grace = absl::Seconds(60);
  absl::Duration blip = kBlip;  // MembershipPolicy.blip
};

class RendezvousLink {
 public:
  struct Handlers {
    // Receives the answer to Join and, at any time, kUnavailable with what was tried if the rendezvous is lost for
    // good.
    std::function<void(absl::StatusOr<proto::World>)> on_world;
    std::function<void(const proto::GenerationOver&)> on_generation_over;  // another node's workers failed
    std::function<void(const proto::Resize&)> on_resize;                   // may be empty; the world then does not grow
    std::function<void(const proto::Spare&)> on_spare;                     // may be empty
    std::function<void()> on_look;   // someone requests this node's status; may be empty
    std::function<void()> on_serve;  // this node must serve now, at its address of the list; empty if it cannot
  };

  struct Limits {
    absl::Duration first_connect = absl::Seconds(30);  // for Start; later connections use options.connect_timeout
    absl::Duration join = absl::Minutes(10);           // how long a Join waits for the other nodes
  };

  // Connects, waiting for a rendezvous that is not up yet. Returns kUnavailable if there is none in time.
  static absl::StatusOr<std::unique_ptr<RendezvousLink>> Start(RendezvousClient::Options options, Handlers handlers,
                                                               const Limits& limits, RendezvousPlaces places = {});
  // Waits for a Join in progress.
  ~RendezvousLink();

  // Requests the next generation; the answer goes to on_world. Only one request may be in progress. `tally` holds the
  // restarts that this node has counted; `checkpointed`: proto::Join.
  void Join(const proto::RestartTally& tally, bool checkpointed = false);
  // Reports to the other nodes that this node's workers are gone or going.
  void ReportEnded(const proto::FailureCause& cause);
  // Answers Handlers::on_look, for `composer status`.
  void Report(const proto::NodeReport& report);
  // Returns a page of the job's nodes as the rendezvous knows them; `look` asks them to report, for the next call.
  // Blocks for at most `timeout`. Returns kUnavailable while the rendezvous is away.
  absl::StatusOr<proto::RosterReply> Roster(int first_node_rank, int count, bool look, absl::Duration timeout);
  // Reports that this node's workers are done: a rendezvous that is lost from now on is awaited for a shorter time.
  void WorkersEnded();
  void Leave(absl::string_view reason, bool done = false);
  // For the launcher beside the rendezvous, which ends with it. Blocks, after Leave, until all other nodes of the last
  // world have heard of its end (they have left or joined again) or are lost, for at most `limit` or until
  // `stop_signals` is readable.
  void AwaitOthers(absl::Duration limit, int stop_signals);
  // Returns whether the rendezvous runs beside this launcher because another host was lost.
  bool serves();

  // For the key-value proxy; follows the rendezvous.
  const std::shared_ptr<KeyValueUpstream>& upstream() const { return upstream_; }

 private:
  RendezvousLink(RendezvousClient::Options options, Handlers handlers, const Limits& limits, RendezvousPlaces places);

  static absl::Time Now();

  // Replaces client_.
  absl::Status Connect(const std::string& address, const proto::MembershipRecord& record, absl::Duration timeout);
  std::shared_ptr<RendezvousClient> client();

  void Run();
  void RefreshRecord() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void JoinOnce();
  // Returns false if it has given up or was told to stop.
  bool Recover();
  SuccessionView Look();
  bool AttachTo(int server);
  bool TellWhatWeKnow(RendezvousClient& client);
  void LoseServer();
  bool SleepUnlessEnding(absl::Duration duration);

  const RendezvousClient::Options options_;
  const Handlers handlers_;
  const Limits limits_;
  const Timeouts timeouts_;
  const RendezvousPlaces places_;
  std::shared_ptr<KeyValueUpstream> upstream_;

  // Used by the thread only.
  int server_ = 0;                        // index of the server in use
  std::vector<absl::Time> silent_until_;  // for servers that accepted a connection but did not answer
  std::vector<absl::Time> shunned_until_;
  absl::Time refused_since_ = absl::InfiniteFuture();
  absl::Duration join_pause_;  // before the next attempt, while attempts fail at once
  absl::Time serve_again_ = absl::InfinitePast();

  absl::Mutex mutex_;
  std::shared_ptr<RendezvousClient> client_ ABSL_GUARDED_BY(mutex_);
  bool serves_ ABSL_GUARDED_BY(mutex_) = false;   // because another host was lost
  proto::Liveness host_ ABSL_GUARDED_BY(mutex_);  // of the launcher beside the rendezvous, from the last world
  proto::RestartTally tally_ ABSL_GUARDED_BY(mutex_);
  bool checkpointed_ ABSL_GUARDED_BY(mutex_) = false;
  bool join_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time away_since_ ABSL_GUARDED_BY(mutex_);
  // InfiniteFuture while this node's workers run.
  absl::Time broken_since_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time done_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::optional<proto::FailureCause> untold_ ABSL_GUARDED_BY(mutex_);  // reported while the rendezvous was away
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  Prober prober_;
  std::thread thread_;
};

}  // namespace composer
