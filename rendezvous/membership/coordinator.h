// The membership of one job as a state machine: messages and `now` in, messages out. It decides nothing itself
// (membership.h, node_order.h and admission.h do) and has no lock, clock, timer or socket: the service holds a lock
// around each call and delivers the outcome.
//
//   idle --a world forms--> running(g) --first cause, a lost node, or all have left--> idle --> running(g + 1) ...
//   fresh --Reattach(g)--> running(g), recovering --all its nodes are back--> running(g)
//                                                 --grace is over----------> idle
//
// A node of a running world that joins again, or is lost, ends the generation. When its stream ends without Leave, the
// node is absent: other nodes are asked whether they reach its launcher. If nobody reaches it, it is lost; if it is
// reached, it has MembershipPolicy.blip to re-attach, and then nothing has happened (coordinator_absences.cc). The
// first cause is sent to every other node of the world. A later one is dropped, unless it explains the first
// (IsBetterCause) and arrives before the next world forms: then it is sent to all of them. Leave does not end the
// generation of the others, unless all have left.
//
// A coordinator that was restarted knows nothing. Every Join and Reattach carries the node's MembershipRecord, from
// which the coordinator learns of the newest world, and whether it runs (Reattach, or a spare's Join) or is over (a
// member's Join). The same state serves a coordinator that was itself stopped for a while (Stalled): nodes whose
// connections broke meanwhile are expected back, not lost.
//
// Stale and duplicate messages change nothing: those of a stream that is over or was replaced by a newer one of its
// node, a Join of a node that waits, a Join that does not know the running world its sender is in, a report of another
// generation.
//
// A message costs O(1), except for those that form or end a world of n nodes: they cost O(n log n) and O(n), and each
// answers n messages. `now` may jump back; the coordinator's time then stands still.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"
#include "rendezvous/failover/quorum_history.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/worlds/generation.h"
#include "rendezvous/worlds/node_order.h"
#include "rendezvous/worlds/rank_layout.h"

namespace composer {

class Coordinator {
 public:
  using Session = uint64_t;  // one stream of one node; increases, is never reused; not 0

  struct Options {
    std::string job;
    std::string incarnation;  // of this process; makes its worlds' ids unique
    MembershipPolicy policy;
    absl::Time settled = absl::InfinitePast();  // until then a world may be running that nobody has reported
    Numbering numbering;
  };

  struct Outgoing {
    Session session = 0;
    std::shared_ptr<const proto::CoordinatorMessage> message;  // may be shared
    bool last = false;                                         // the stream ends after it (a refusal)
  };
  struct Outcome {
    std::vector<Outgoing> messages;
    uint64_t ended = 0;  // generation that is over, whose keys are dropped; 0: none
    std::string why_ended;
    uint64_t restore = 0;           // generation whose keys the Reattach carries and the store needs; 0: none
    uint64_t begun = 0;             // generation whose keys open before the messages are sent; 0: none
    bool resumed = false;           // `begun` opens with the restored keys
    std::vector<Session> replaced;  // streams to end: their node came back on another one
  };

  explicit Coordinator(Options options) : options_(std::move(options)), quorum_history_(options_.policy.holds_tie) {
    roster_.settled = options_.settled;
  }

  Outcome Join(Session session, const proto::Caller& caller, const proto::Join& join, absl::Time now);
  Outcome Reattach(Session session, const proto::Caller& caller, const proto::Reattach& reattach, absl::Time now);
  Outcome GenerationEnded(Session session, uint64_t generation, const proto::FailureCause& cause, absl::Time now);
  // Records that the world that was sent to the node has reached it.
  Outcome WorldTaken(Session session, uint64_t generation, absl::Time now);
  // Takes the answer to a Probe.
  Outcome Probed(Session session, const proto::Probed& probed, absl::Time now);
  // `done`: the job is done, and its last world's nodes agree. With the last of them the nodes that wait as spares are
  // sent away with Refusal.done, because a world of theirs would have nothing to do.
  Outcome Leave(Session session, bool done, absl::Time now);
  // Records that the stream ended; has no effect after Leave.
  Outcome Lost(Session session, absl::Time now);
  // Must be called at wake_at() or later.
  Outcome Tick(absl::Time now);
  // Records that this process did not run until `now`: connections that break within kStallAllowance say nothing about
  // their nodes, nodes of a running world that wanted to report it before `settled` still may, and no world ends for
  // lack of nodes while those that were connected may be on their way back.
  void Stalled(absl::Time now);
  static constexpr absl::Duration kStallAllowance = absl::Seconds(6);

  // Returns when to call Tick; InfiniteFuture: no need.
  absl::Time wake_at() const { return wake_at_; }
  // Returns why no world has formed yet, or why the last one did.
  const std::string& reason() const { return reason_; }
  // Returns a page of the newest world's members, with what they have reported. O(count).
  proto::RosterReply Roster(int first_node_rank, int count) const;

  // Asks the members of that page to report; a node that was asked a moment ago is not asked again.
  Outcome Look(int first_node_rank, int count, absl::Time now);
  // Records a node's answer; ignores it if its stream is over, or if it has more ranks than a node can have.
  void Report(Session session, const proto::NodeReport& report, absl::Time now);

  const MemberRoster& roster() const { return roster_; }

 private:
  struct Node {
    proto::NodeInfo info;
    int64_t arrival = 0;
    uint64_t told = 0;   // the newest generation that this stream's node was a member of
    int node_rank = -1;  // node rank in the last world; -1: was not in it
    bool waiting = false;
    Voter voter;                // as the node last described itself
    proto::RestartTally tally;  // as of its last Join
    proto::NodeReport report;
    absl::Time reported = absl::InfinitePast();
    absl::Time looked = absl::InfinitePast();  // when it was last asked
  };
  using Nodes = std::unordered_map<Session, Node>;
  // A member of the last world, present or not; the index is the node rank.
  struct Member {
    enum class State { kExpected, kPresent, kLost, kLeft };
    State state = State::kExpected;
    Session session = 0;  // kPresent
    int base_rank = -1;   // -1: not known yet
  };

  // A node of the last world whose stream has ended, but which may only be cut off from us.
  struct Absence {
    proto::NodeInfo info;
    absl::Time since;
    std::set<Session> asked;  // nodes that have not answered yet
    bool unreached = false;   // some node answered that it cannot reach this one, and none that it can
    absl::Time next;          // when to ask again, or to treat silence as an answer
  };

  static std::string PlaceName(const proto::NodeInfo& node);
  static std::string Describe(const proto::NodeInfo& node, int node_rank);
  absl::Time Later(absl::Time now) { return now_ = std::max(now_, now); }
  std::optional<proto::Refusal> Check(const proto::Caller& caller, const proto::NodeInfo& node) const;
  bool Refuse(Session session, const proto::Caller& caller, const proto::NodeInfo& info, Outcome& outcome) const;
  // Returns false when a newer stream of the same node has replaced the one that the message is from.
  bool TakeOver(Session session, const proto::NodeInfo& info, int* vacated, Outcome& outcome);
  Node& Admit(Session session, const proto::NodeInfo& info);
  void Learn(const proto::MembershipRecord& record, Outcome& outcome);
  bool IsNewest(const proto::MembershipRecord& record) const;
  bool TakeNodeRank(Session session, Node& node, const proto::MembershipRecord& record);
  void Hear(Session session, const proto::MembershipRecord& record, Outcome& outcome);
  void StartWaiting(Node& node);
  void StopWaiting(Node& node);
  void Vacate(Node& node, Member::State state);
  void Remove(Nodes::iterator it, Member::State state);
  void EndGeneration(Session reporter, proto::FailureCause cause, Outcome& outcome);
  void AmendCause(Session reporter, proto::FailureCause cause, Outcome& outcome);
  void EndIfAllHaveGone(Outcome& outcome);
  void GiveUpNodeRank(int node_rank, Session newcomer, const proto::NodeInfo& info, Outcome& outcome);
  void ResumeIfAllAreBack(Outcome& outcome);
  void NumberRanks();
  void Decide(Outcome& outcome);
  std::vector<Candidate> Candidates() const;
  // Starts to keep the quorum of the newest world; `anew`: forgets all worlds before.
  void FollowQuorum(bool anew);
  // Returns what all members of the next world are told, and takes its generation and id.
  proto::World NewWorld(const std::vector<Session>& members, const RankLayout& layout);
  void Form(bool anew, Outcome& outcome);
  void Resize(Outcome& outcome);
  void Dissolve(Outcome& outcome);
  // Ends the streams of all nodes that wait, with this answer.
  void SendAway(const proto::Refusal& refusal, Outcome& outcome);
  void TellSpare(Session session, Outcome& outcome) const;
  void DecideWorld(Outcome& outcome);
  void BeginAbsence(Nodes::iterator it, Outcome& outcome);
  void Ask(int node_rank, Absence& absence, Outcome& outcome);
  // Returns false when the node is lost, or back.
  bool Review(int node_rank, Absence& absence, Outcome& outcome);
  void ReviewAbsences(Outcome& outcome);
  void LoseAbsent(int node_rank, const std::string& why, Outcome& outcome);
  proto::RestartTally MostRestarts(const std::vector<Session>& members) const;
  std::pair<int64_t, int64_t> Page(int first_node_rank, int count) const;

  const Options options_;
  Nodes nodes_;
  std::unordered_map<std::string, Session> by_id_;  // node_id -> session
  std::unordered_map<int, Session> by_given_rank_;
  int64_t slots_ = 0;  // of all nodes_
  std::vector<Member> members_;
  std::string world_;       // id of the last world
  bool own_world_ = false;  // this process formed it
  MemberRoster roster_;
  QuorumHistory quorum_history_;  // empty unless the policy asks for a quorum
  int64_t num_arrivals_ = 0;
  absl::Time now_ = absl::InfinitePast();
  absl::Time stalled_until_ = absl::InfinitePast();
  absl::Time wake_at_ = absl::InfiniteFuture();
  std::string reason_;
  std::shared_ptr<const proto::CoordinatorMessage> resize_;   // the running world's Resize, while it is resizing
  proto::FailureCause over_because_;                          // why the last generation ended
  bool keys_open_ = false;                                    // of the running generation
  std::unordered_map<std::string, std::string> lost_places_;  // places of lost members of the last world -> node_id
  std::map<int, Absence> absences_;                           // by node rank; at most kMaxAbsences
};

}  // namespace composer
