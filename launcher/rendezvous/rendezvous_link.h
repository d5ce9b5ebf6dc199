// This launcher's tie to the rendezvous: joins generations without blocking the caller, and finds the rendezvous again
// when it was lost: restarted at its place, or served by the next host of the list (rendezvous/failover/succession.h). Workers go
// on while it is away; it is told what this node knows of the running world, and of its keys.
// Threads: one caller, and one thread of its own; the handlers run on other threads and must not block.
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
  std::vector<std::string> servers;  // "host:port", in the order in which they take over; empty: the client's address
  int self = -1;                     // this node's index in it; -1: it is not on it
  bool hosted = true;                // nodes of the job run them; false: a `composer serve` of its own
  absl::Duration grace = absl::Seconds(60);
  absl::Duration blip = kBlip;  // MembershipPolicy.blip
};

class RendezvousLink {
 public:
  struct Handlers {
    // The answer to Join; at any time kUnavailable: the rendezvous is lost for good, with what was tried.
    std::function<void(absl::StatusOr<proto::World>)> on_world;
    std::function<void(const proto::GenerationOver&)> on_generation_over;  // another node's workers failed
    std::function<void(const proto::Resize&)> on_resize;                   // may be empty: the world then does not grow
    std::function<void(const proto::Spare&)> on_spare;                     // may be empty
    std::function<void()> on_look;   // someone asks how this node is doing; may be empty
    std::function<void()> on_serve;  // this node is to serve now, at its address of the list; empty: it cannot
  };

  struct Limits {
    absl::Duration first_connect = absl::Seconds(30);  // of Start; later ones have options.connect_timeout
    absl::Duration join = absl::Minutes(10);           // that a Join waits for the other nodes
  };

  // Connects, waiting for a rendezvous that is not up yet. kUnavailable: none in time.
  static absl::StatusOr<std::unique_ptr<RendezvousLink>> Start(RendezvousClient::Options options, Handlers handlers,
                                                               const Limits& limits, RendezvousPlaces places = {});
  // Waits for a Join that runs.
  ~RendezvousLink();

  // Asks for the next generation; the answer comes to on_world. One at a time.
  // `tally`: the restarts that this node has counted.
  void Join(const proto::RestartTally& tally);
  // Tells the other nodes that this node's workers are gone or going.
  void ReportEnded(const proto::FailureCause& cause);
  // The answer to Handlers::on_look, for `composer status`.
  void Report(const proto::NodeReport& report);
  // A page of the job's nodes, as the rendezvous knows them; `look`: asks them to report, for the next call. Blocks for
  // at most `timeout`. kUnavailable: it is away.
  absl::StatusOr<proto::RosterReply> Roster(int first_node_rank, int count, bool look, absl::Duration timeout);
  // This node's workers are done: a rendezvous that goes now need not be waited for as long.
  void WorkersEnded();
  void Leave(absl::string_view reason);
  // Of the launcher beside the rendezvous, which goes with it: waits, after Leave, until all other nodes of the last world have
  // heard of its end (they have left, or joined again) or are lost, at most `limit`, or until `stop_signals` is readable.
  void AwaitOthers(absl::Duration limit, int stop_signals);
  // The rendezvous runs beside this launcher, since another host was lost.
  bool serves();

  // For the key-value proxy: follows the rendezvous.
  const std::shared_ptr<KeyValueUpstream>& upstream() const { return upstream_; }

 private:
  RendezvousLink(RendezvousClient::Options options, Handlers handlers, const Limits& limits, RendezvousPlaces places);

  // Makes client_ anew.
  absl::Status Connect(const std::string& address, const proto::MembershipRecord& record, absl::Duration timeout);
  std::shared_ptr<RendezvousClient> client();

  void Run();
  void RefreshRecord() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void JoinOnce();
  // False: given up, or told to stop.
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

  // Of the thread.
  int server_ = 0;                        // index of the one attached to
  std::vector<absl::Time> silent_until_;  // accepted a connection, but did not answer
  std::vector<absl::Time> shunned_until_;
  absl::Time refused_since_ = absl::InfiniteFuture();
  absl::Duration join_pause_;  // before the next attempt, while attempts are answered at once and in vain
  absl::Time serve_again_ = absl::InfinitePast();

  absl::Mutex mutex_;
  std::shared_ptr<RendezvousClient> client_ ABSL_GUARDED_BY(mutex_);
  bool serves_ ABSL_GUARDED_BY(mutex_) = false;   // since another host was lost
  proto::Liveness host_ ABSL_GUARDED_BY(mutex_);  // of the launcher beside the rendezvous, as the last world told
  proto::RestartTally tally_ ABSL_GUARDED_BY(mutex_);
  bool join_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time away_since_ ABSL_GUARDED_BY(mutex_);
  absl::Time broken_since_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // InfiniteFuture: this node's workers run
  absl::Time done_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::optional<proto::FailureCause> untold_ ABSL_GUARDED_BY(mutex_);  // reported while the rendezvous was away
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  Prober prober_;
  std::thread thread_;
};

}  // namespace composer
