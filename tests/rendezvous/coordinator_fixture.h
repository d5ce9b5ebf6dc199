// A coordinator for tests, with what its nodes send and receive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "rendezvous/membership/coordinator.h"

namespace composer {

class CoordinatorTest : public ::testing::Test {
 protected:
  explicit CoordinatorTest(const MembershipPolicy& policy = {2, 3, absl::Seconds(1)}, const Numbering& numbering = {})
      : coordinator_({.job = "job", .incarnation = "c1", .policy = policy, .numbering = numbering}) {}

  proto::NodeInfo Info(Coordinator::Session session, const std::string& node_id, int given_rank = -1) const {
    proto::NodeInfo node;
    node.set_node_id(node_id.empty() ? absl::StrCat(session) : node_id);
    node.set_hostname(absl::StrCat("host", session));
    node.set_node_rank(given_rank);
    node.set_slots(2);
    node.mutable_life()->set_port(shows_life_ ? 7000 + static_cast<int>(session) : 0);
    return node;
  }
  static proto::Caller FromJob() {
    proto::Caller caller;
    caller.set_job("job");
    return caller;
  }
  static proto::MembershipRecord In(uint64_t generation, int node_rank, int nodes = 3,
                                    const std::string& coordinator = "c1") {
    proto::MembershipRecord record;
    record.set_generation(generation);
    record.set_world(absl::StrCat(coordinator, "-", generation));
    record.set_nodes(nodes);
    record.set_node_rank(node_rank);
    return record;
  }
  // Session n is the first stream of node "n".
  Coordinator::Outcome Join(Coordinator::Session session, const std::string& node_id = "", int given_rank = -1) {
    return Join(session, node_id, given_rank, records_[session]);
  }
  Coordinator::Outcome Join(Coordinator::Session session, const std::string& node_id, int given_rank,
                            const proto::MembershipRecord& last) {
    proto::Join join;
    *join.mutable_node() = Info(session, node_id, given_rank);
    *join.mutable_last() = last;
    return Note(coordinator_.Join(session, FromJob(), join, clock_.Now()));
  }
  // Records what the nodes receive about their worlds.
  Coordinator::Outcome Note(Coordinator::Outcome outcome) {
    for (const auto& out : outcome.messages) {
      if (!out.message->has_world()) continue;
      const proto::World& world = out.message->world();
      records_[out.session] = In(world.generation(), world.node_rank(), world.nodes());
      *records_[out.session].mutable_before() = world.before();
    }
    return outcome;
  }
  Coordinator::Outcome Rejoin(Coordinator::Session session, const proto::MembershipRecord& last) {
    return Join(session, "", -1, last);
  }
  Coordinator::Outcome Reattach(Coordinator::Session session, const proto::MembershipRecord& record,
                                const std::string& node_id = "") {
    proto::Reattach reattach;
    *reattach.mutable_node() = Info(session, node_id);
    *reattach.mutable_record() = record;
    records_[session] = record;
    return coordinator_.Reattach(session, FromJob(), reattach, clock_.Now());
  }
  Coordinator::Outcome Tick() { return Note(coordinator_.Tick(clock_.Now())); }
  Coordinator::Outcome Lose(Coordinator::Session session) { return Note(coordinator_.Lost(session, clock_.Now())); }
  Coordinator::Outcome Report(Coordinator::Session session, uint64_t generation, const std::string& message) {
    proto::FailureCause cause;
    cause.set_message(message);
    return coordinator_.GenerationEnded(session, generation, cause, clock_.Now());
  }
  // Forms a world of three nodes in generation 1, on sessions 1 to 3.
  void FormThree() {
    for (int session = 1; session <= 3; ++session) Join(session);
  }
  static std::vector<Coordinator::Session> Receivers(const Coordinator::Outcome& outcome) {
    std::vector<Coordinator::Session> sessions;
    for (const auto& out : outcome.messages) sessions.push_back(out.session);
    return sessions;
  }

  bool shows_life_ = false;  // the nodes' launchers can be probed
  ManualClock clock_;
  Coordinator coordinator_;
  std::map<Coordinator::Session, proto::MembershipRecord> records_;
};

}  // namespace composer
