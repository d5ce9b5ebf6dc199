// The membership of one job as a state machine: messages in, messages out. It decides nothing itself (membership.h and
// admission.h do) and has no lock, clock, timer or socket: the service holds a lock around each call, gives `now` and
// delivers the outcome.
//
//   idle --a world forms--> running(g) --first cause, a lost node, or all have left--> idle --> running(g + 1) ...
//
// A node of a running world that joins again, or whose stream ends without Leave, ends the generation. The first cause
// is sent to every other node of the world; later ones are collateral and dropped. Leave does not end the generation of
// the others, unless all have left.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"
#include "rendezvous/membership.h"

namespace composer {

class Coordinator {
 public:
  using Session = uint64_t;  // one stream of one node; never used twice

  struct Outgoing {
    Session session = 0;
    std::shared_ptr<const proto::CoordinatorMessage> message;  // shared: a world goes to all of its nodes
    bool last = false;                                         // the stream ends after it (a refusal)
  };
  struct Outcome {
    std::vector<Outgoing> messages;
    uint64_t ended = 0;  // generation that is over: its keys go. 0: none
    std::string why_ended;
    uint64_t begun = 0;             // generation that has formed: its keys open before its World is sent. 0: none
    std::vector<Session> replaced;  // streams to end: their node came back on another one
  };

  Coordinator(std::string job, const MembershipPolicy& policy) : job_(std::move(job)), policy_(policy) {}

  Outcome Join(Session session, const proto::Caller& caller, const proto::NodeInfo& node, absl::Time now);
  Outcome GenerationEnded(Session session, uint64_t generation, const proto::FailureCause& cause, absl::Time now);
  Outcome Leave(Session session, absl::Time now);
  // The stream ended; no effect after Leave.
  Outcome Lost(Session session, absl::Time now);
  // Call at wake_at() or later.
  Outcome Tick(absl::Time now);

  // When to call Tick; InfiniteFuture: no need.
  absl::Time wake_at() const { return wake_at_; }
  // Why no world has formed yet, or why the last one did.
  const std::string& reason() const { return reason_; }

 private:
  struct Node {
    proto::NodeInfo info;
    int64_t arrival = 0;
    int previous_rank = -1;  // node rank in the last world
    bool waiting = false;
  };
  using Nodes = std::map<Session, Node>;

  std::optional<proto::Refusal> Check(const proto::Caller& caller, const proto::NodeInfo& node) const;
  Node& Admit(Session session, const proto::NodeInfo& info);
  void StartWaiting(Node& node, absl::Time now);
  void Remove(Nodes::iterator it);
  void EndGeneration(Session reporter, proto::FailureCause cause, absl::Time now, Outcome& outcome);
  void Decide(absl::Time now, Outcome& outcome);
  void Form(absl::Time now, Outcome& outcome);

  const std::string job_;
  const MembershipPolicy policy_;
  Nodes nodes_;
  std::unordered_map<std::string, Session> by_id_;  // node_id -> its stream
  std::unordered_map<int, Session> by_given_rank_;
  RollCall roll_;
  int64_t num_arrivals_ = 0;
  absl::Time wake_at_ = absl::InfiniteFuture();
  std::string reason_;
};

}  // namespace composer
